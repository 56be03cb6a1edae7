"""Sub-agents on other targets: each is a run of its own, in a process of its target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Budget,
    Chat,
    DataPolicy,
    Limits,
    MemoryStore,
    Operator,
    Resources,
    RunContext,
    Runtime,
    Scope,
    ToolCall,
    delegate,
    tool,
)
from concertino.agents import EMAIL
from concertino.errors import ConfigurationError
from concertino.events import RunEnded, RunResult
from concertino.runtime import Fleet, LiveRun, assigned_calls
from concertino.storage import ClaimedCall
from concertino.testing import Answer, ScriptedModel, call
from concertino.waits import Wait

from .test_fleet import Bell, joined

CARLA = Scope(tenant="acme", user="carla")
TARGETS = {"desks": ["desk"], "batch": ["clerk"]}
ASKED = Chat("what is it?", scope=CARLA, model="desk")


@tool(effect="once")
async def refund() -> str:
    """Refund an order."""
    return "refunded"


class Clerk(AgentConfig[None]):
    name = "clerk"
    tools = (refund,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


class Desk(AgentConfig[None]):
    name = "desk"

    def __init__(self, target: str = "batch", **options: Any) -> None:
        self.tools = (delegate(Clerk(), description="Ask the clerk.", target=target, **options),)


class Discreet(Desk):
    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(patterns=[EMAIL])


@asynccontextmanager
async def fleet(
    desk: ScriptedModel, clerk: ScriptedModel, agent: Desk | None = None, *, broken: bool = False, **more: Any
) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """Open a process of each target on the same store. Each knows its own agent only, and has a model of its own."""
    store, bell = MemoryStore(), Bell(broken=broken)
    sweep = 0.01 if broken else 3600.0
    one = Resources(store=store, models=lambda _: desk, model=desk, **more)
    two = Resources(store=store, models=lambda _: clerk, model=clerk)
    desks = Runtime([agent or Desk()], one, sweep=sweep)
    batch = Runtime([Clerk()], two, sweep=sweep)
    joined(desks, Fleet(bell=bell, targets=TARGETS, takes=["desks"]))
    joined(batch, Fleet(bell=bell, targets=TARGETS, takes=["batch"]))
    async with desks, batch:
        await desks.look()
        await batch.look()
        await asyncio.sleep(0)
        yield desks, batch


async def ended(runtime: Runtime, run: LiveRun) -> RunResult:
    """Return the result of a run once it has ended, in whichever process."""
    async for _ in runtime.events(CARLA, run.id):
        pass
    return await runtime.result(CARLA, run.id)


async def called_runs(runtime: Runtime) -> list[Any]:
    """Return the runs that work for calls."""
    return [each for each in await runtime.store.runs(CARLA, roots=True) if each.start.parent_id]


async def approval(runtime: Runtime) -> Wait:
    """Return the approval that is asked for, as soon as it is."""
    while not (waits := await runtime.approvals(CARLA)):  # noqa: ASYNC110 - another runtime asks
        await asyncio.sleep(0.001)
    return waits[0]


@pytest.mark.parametrize("broken", [False, True], ids=["bell", "sweep"])
async def test_a_sub_agent_runs_in_a_process_of_its_target(broken: bool) -> None:
    desk = ScriptedModel(call("clerk", query="add it up"), "It is three.")
    async with fleet(desk, ScriptedModel("three"), broken=broken) as (desks, batch):
        run = await desks.start(ASKED, "desk")
        result = await ended(desks, run)
        assert result.text == "It is three."
        (called,) = await called_runs(batch)
        assert (called.start.agent_path, called.start.parent_id) == ("desk/clerk-1", run.id)
        assert called.start.task == "add it up"
        assert [record.agent_path for record in result.usage] == ["desk", "desk/clerk-1", "desk"]
        assert len({record.id for record in result.usage}) == 3
        (total,) = await batch.store.usage_sums(CARLA, [])
        assert total.attempts == 3
    assert "three" in desk.requests[-1].messages[-1].content


async def test_a_reader_until_the_suspension_reads_on_while_a_target_works() -> None:
    desk = ScriptedModel(call("clerk", query="add it up"), "It is three.")
    async with fleet(desk, ScriptedModel("three")) as (desks, _):
        turn = await (await desks.conversation(CARLA, agent="desk")).send("what is it?")
        ends = [event async for _, event in turn.events(until="suspended") if isinstance(event, RunEnded)]
    assert [end.result.text for end in ends] == ["It is three."]


async def test_the_parent_holds_no_process_while_a_person_is_asked() -> None:
    desk = ScriptedModel(call("clerk", query="refund it"), "Done.")
    clerk = ScriptedModel(call("refund"), "It is refunded.")
    async with fleet(desk, clerk) as (desks, batch):
        run = await desks.start(ASKED, "desk")
        assert (await run.result()).status == "suspended"
        wait = await approval(desks)
        assert (wait.tool, wait.agent_path) == ("refund", "desk/clerk-1")
        assert desks.live(OPERATOR, run.id) is None or run.done
        assert not await desks.approvals(Scope(tenant="acme", user="mallory"))
        await desks.approve(CARLA, wait.key)
        result = await ended(desks, run)
        assert result.text == "Done."
        assert result.tool_calls == {"desk": 1, "desk/clerk-1": 1}
        assert batch.live(OPERATOR, run.id) is None


async def test_stopping_the_parent_stops_the_sub_agent() -> None:
    begun = asyncio.Event()

    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    desk = ScriptedModel(call("clerk", query="take long"))
    async with fleet(desk, ScriptedModel(Answer(text="a long answer", midway=hold))) as (desks, batch):
        run = await desks.start(ASKED, "desk")
        await begun.wait()
        (called,) = await called_runs(batch)
        await desks.stop(CARLA, run.id)
        await batch.look()
        async for _ in batch.events(CARLA, called.start.run_id):
            pass
        assert (await batch.result(CARLA, called.start.run_id)).status == "cancelled"
        assert (await desks.result(CARLA, run.id)).status == "cancelled"


async def test_the_failure_of_a_sub_agent_is_the_result_of_the_call() -> None:
    desk = ScriptedModel(call("clerk", query="fail"), "It failed.")
    async with fleet(desk, ScriptedModel(RuntimeError("broken"))) as (desks, _):
        assert (await ended(desks, await desks.start(ASKED, "desk"))).text == "It failed."
    assert desk.requests[-1].messages[-1].content.startswith("clerk failed: RuntimeError: broken")


@pytest.mark.parametrize("damaged", [False, True], ids=["poison", "damaged"])
async def test_a_sub_agent_that_is_given_up_is_the_result_of_the_call(damaged: bool) -> None:
    """It would be a dead letter, and nobody would answer the call."""
    begun = asyncio.Event()

    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    desk = ScriptedModel(call("clerk", query="take long"), "It failed.")
    clerk = ScriptedModel(Answer(text="a long answer", midway=hold))
    async with fleet(desk, clerk) as (desks, batch):
        run = await desks.start(ASKED, "desk")
        await begun.wait()
        (called,) = await called_runs(batch)
        await batch.close()
        store, run_id = batch.store, called.start.run_id
        assert isinstance(store, MemoryStore)
        if damaged:
            sql = "UPDATE journal SET body = '#' WHERE seq = 0 AND run = (SELECT number FROM runs WHERE run_id = ?)"
            await store._connection.run(lambda connection: connection.execute(sql, (run_id,)))
        else:
            for _ in range(2):
                await store.claim(OPERATOR, run_id, "a process that dies", 0.0)
        again = Runtime([Clerk()], Resources(store=store, models=lambda _: clerk), sweep=3600.0, tries=1)
        bell = desks._log.bell
        assert bell is not None
        await joined(again, Fleet(bell=bell, targets=TARGETS, takes=["batch"])).look()
        assert (await ended(desks, run)).text == "It failed."
        stored = await store.run(CARLA, run_id)
        assert stored is not None
        assert stored.end is not None
        assert stored.end.status == "failed"
        assert not (await store.due(OPERATOR)).ready
    content = desk.requests[-1].messages[-1].content
    assert content.startswith("clerk failed: ")
    assert damaged or content == "clerk failed: its process ended 1 times without progress"


async def test_a_target_that_does_not_have_the_agent_says_so() -> None:
    desk = ScriptedModel(call("clerk", query="fail"), "It failed.")
    async with fleet(desk, ScriptedModel(), Desk(target="desks")) as (desks, _):
        assert (await ended(desks, await desks.start(ASKED, "desk"))).text == "It failed."
    assert "agent 'clerk' belongs to target 'batch', not to 'desks'" in desk.requests[-1].messages[-1].content


class AtOnce(MemoryStore):
    """A store in which a call without a run is due again at once."""

    async def claim_calls(self, scope: Operator, seconds: float, **more: Any) -> Sequence[ClaimedCall]:
        return await super().claim_calls(scope, 0.0, **more)


@pytest.mark.parametrize("failing", ["resources", "limits"])
async def test_a_call_waits_while_the_resources_of_its_run_fail(failing: str) -> None:
    store, bell, failures = AtOnce(), Bell(), [failing]
    desk, clerk = (ScriptedModel(call("clerk", query="add it up"), "It is three."), ScriptedModel("three"))
    asked = asyncio.Event()

    def limits(*_: Any, **__: Any) -> Limits:
        if "limits" in failures:
            asked.set()
            raise RuntimeError("down")
        return Limits()

    def resources(*_: Any) -> Resources:
        if "resources" in failures:
            asked.set()
            raise RuntimeError("down")
        return Resources(models=lambda _: clerk, model=clerk, limits=limits)

    desks = Runtime([Desk()], Resources(store=store, models=lambda _: desk, model=desk), sweep=3600.0)
    batch = Runtime([Clerk()], resources, store=store, sweep=3600.0)
    joined(desks, Fleet(bell=bell, targets=TARGETS, takes=["desks"]))
    joined(batch, Fleet(bell=bell, targets=TARGETS, takes=["batch"]))
    async with desks, batch:
        run = await desks.start(ASKED, "desk")
        await asked.wait()
        await batch.look()  # the watchdog goes on, too
        failures.clear()
        await batch.look()
        assert (await ended(desks, run)).text == "It is three."
    assert desk.requests[-1].messages[-1].content == "three"


async def test_the_budget_of_the_run_pays_for_sub_agents() -> None:
    desk = ScriptedModel(call("clerk", query="spend"), "Nothing is left.")
    async with fleet(desk, ScriptedModel("three")) as (desks, _):
        run = await desks.start(replace(ASKED, budget=Budget(tokens=20_000)), "desk")
        result = await ended(desks, run)
        (account,) = await desks.store.accounts(CARLA, run_id=run.id)
    assert account.spent_tokens == sum(record.tokens.total for record in result.usage)
    assert len(result.usage) == 3
    assert account.reserved_tokens == 0


async def test_limits_of_the_tree_pass_down() -> None:
    def limits(*_: Any) -> Limits:
        return Limits(all_tool_calls=2)

    desk = ScriptedModel(call("clerk", query="much"), "Enough.")
    clerk = ScriptedModel(*[call("unknown") for _ in range(5)], "All I could do.")
    async with fleet(desk, clerk, limits=limits) as (desks, _):
        result = await ended(desks, await desks.start(ASKED, "desk"))
    assert result.tool_calls["desk/clerk-1"] == 1, "one of two was the desk's own"


async def test_patterns_of_the_parents_policy_pass_down() -> None:
    desk = ScriptedModel(call("clerk", query="write to ann@example.com"), "Done.")
    async with fleet(desk, ScriptedModel("I wrote to bob@example.com"), Discreet()) as (desks, _):
        await ended(desks, await desks.start(ASKED, "desk"))
        (called,) = await called_runs(desks)
        messages = await desks.store.messages(CARLA, called.start.run_id)
    assert "example.com" not in repr([each.message for each in messages])
    assert "example.com" not in desk.requests[-1].messages[-1].content


async def test_one_process_alone_takes_the_calls_of_all_targets() -> None:
    model = ScriptedModel(call("clerk", query="add it up"), "three", "It is three.")
    resources = Resources(store=MemoryStore(), models=lambda _: model, model=model)
    async with Runtime([Desk(), Clerk()], resources, sweep=3600.0) as runtime:
        assert (await ended(runtime, await runtime.start(ASKED, "desk"))).text == "It is three."


async def test_without_a_store_the_call_fails() -> None:
    from concertino import ToolOrchestrator

    model = ScriptedModel(call("clerk", query="add it up"), "I cannot.")
    result = await ToolOrchestrator(Chat("add", model=model), Desk()).run()
    assert result.text == "I cannot."
    assert "the run has no store" in model.requests[-1].messages[-1].content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "batch", "background": True}, "takes neither tools nor background"),
        ({"target": "batch", "tools": []}, "takes neither tools nor background"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        delegate(Clerk(), description="Ask.", **options)


def same(model: ScriptedModel, _: str) -> ScriptedModel:
    """Return *model*, whatever is asked for."""
    return model


@pytest.mark.parametrize("patience", [600.0, 0.0])
async def test_a_process_leaves_a_call_for_an_agent_that_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, patience: float
) -> None:
    """As in an upgrade: first a worker of the old version takes the call, and then one of the new version."""
    monkeypatch.setattr(assigned_calls, "PATIENCE", patience)
    monkeypatch.setattr(assigned_calls, "AGAIN", 0.0)
    store, bell = MemoryStore(), Bell()
    model, clerk = ScriptedModel(call("clerk", query="add it up"), "It is so."), ScriptedModel("three")
    old, new = [
        joined(
            Runtime(agents, Resources(store=store, models=partial(same, each), model=each), sweep=3600.0),
            Fleet(bell=bell, targets=targets, takes=["desks", "batch"]),
        )
        for agents, each, targets in (
            ([Desk()], model, {"desks": ["desk"], "batch": []}),
            ([Desk(), Clerk()], clerk, TARGETS),
        )
    ]
    run = await old.start(ASKED, "desk")
    await run.result()
    await run.recorded()
    await old.look()
    if patience:
        await old.look()
        assert not await called_runs(old)
        assert caplog.text.count("is left to a process with agent clerk") == 1
        await new.look()
        (called,) = await called_runs(new)
        assert (await new.result(CARLA, called.start.run_id)).text == "three"
    await old.look()
    assert (await ended(old, run)).text == "It is so."
    answer = model.requests[-1].messages[-1].content
    assert answer == "three" if patience else "no process of target 'batch' has agent 'clerk'" in answer
    await old.close()
    await new.close()
