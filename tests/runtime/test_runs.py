"""Runs that live apart from those who watch them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    AnyScope,
    Ask,
    Chat,
    RunContext,
    RunEvent,
    Scope,
    TenantScope,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from concertino.agents import delegate
from concertino.errors import (
    ConfigurationError,
    OverloadedError,
    RunClaimedError,
    RunEndedError,
    RunExistsError,
    RunStateError,
    UnknownRunError,
)
from concertino.events import RunEnded, RunStarted, TextDelta, TurnCompleted
from concertino.runtime import Runtime
from concertino.storage import Store
from concertino.testing import Answer, ScriptedModel, call

from .kit import Steady, runtime, seen, state


@tool(effect="read")
async def look(where: str, context: ToolContext) -> ToolResult:
    """Look."""
    with context.progress.begin("looking"):
        return ToolResult(f"seen {where}", data={"where": where})


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (look,)


class Desk(AgentConfig[None]):
    name = "desk"
    prompt = "You are a desk."
    tools: Sequence[Tool] = (look, delegate(Child(), description="A child."))


def steady() -> Steady:
    turn = [call("look", where="here"), call("child", query="go"), call("nobody")]
    return Steady(
        turn, call("look", where="there"), "It is there.", scripts={"the child": [call("look", where="in"), "in"]}
    )


async def test_start_returns_when_it_is_on_record(store: Store) -> None:
    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=opened.wait))
    async with runtime(store, model, Desk()) as process:
        live = await process.start(Chat(model=model, message="go", scope=Scope(user="u")), "desk", run_id="r1")
        stored = await store.run(OPERATOR, "r1")
        assert stored is not None
        assert (stored.state, stored.start.scope.user, live.id, live.done) == ("running", "u", "r1", False)
        assert process.live(OPERATOR, "r1") is live
        with pytest.raises(RunStateError, match="running"):
            await runtime(store, model).result(OPERATOR, "r1")
        with pytest.raises(RunClaimedError):
            await runtime(store, model, Desk()).resume(OPERATOR, "r1")
        opened.set()
        assert (await process.result(OPERATOR, "r1")).text == "done"
    with pytest.raises(RunEndedError):
        await runtime(store, model, Desk()).resume(OPERATOR, "r1")


async def test_what_cannot_be_begun_or_found(store: Store) -> None:
    model = ScriptedModel("one")
    async with runtime(store, model, Desk()) as process:
        chat = Chat(model=model, message="go")
        await (await process.start(chat, "desk", run_id="r1")).result()
        with pytest.raises(RunExistsError):
            await process.start(chat, "desk", run_id="r1")
        with pytest.raises(ConfigurationError, match="it has: desk"):
            await process.start(chat, "nobody")
        for ask in (process.result, process.resume, process.replay, process.stop):
            with pytest.raises(UnknownRunError):
                await ask(OPERATOR, "nobody")
    with pytest.raises(ConfigurationError, match="use agents"):
        Runtime(["desk"])  # type: ignore[list-item]


async def test_events_have_numbers_without_gap_or_doubling(store: Store) -> None:
    async with runtime(store, steady(), Desk()) as process:
        live = await process.start(Chat(model=steady(), message="go"), "desk")
        first = [number async for number, _ in live.events()]
        whole = [(number, event) async for number, event in live.events()]
        assert isinstance(whole[0][1], RunStarted)
        assert isinstance(whole[-1][1], RunEnded)
        assert not [e for _, e in whole if isinstance(e, TextDelta)], "pieces give way to the turn"
        assert {number for number, _ in whole} <= set(first)
        assert first == sorted(set(first))
        for after in range(first[-1] + 1):
            rest = [number async for number, _ in live.events(after)]
            assert rest == [number for number, _ in whole if number > after]


@pytest.mark.parametrize("leaves_at", [1, 3, 7, 12])
async def test_a_reader_who_leaves_changes_nothing_and_finds_the_rest(store: Store, leaves_at: int) -> None:
    async with runtime(store, steady(), Desk()) as process:
        undisturbed = await seen(await process.start(Chat(model=steady(), message="go"), "desk"))
        live = await process.start(Chat(model=steady(), message="go"), "desk")
        last, mine = 0, list[RunEvent]()
        more = True
        while more:
            more, taken = False, 0
            async for number, event in live.events(last):
                last = number
                mine.append(event)
                taken += 1
                if more := taken == leaves_at:
                    break
        assert _names(mine) == _names(undisturbed)
        assert (await live.result()).status == "completed"


def _names(events: list[RunEvent]) -> list[str]:
    """Tools run side by side, so their events may change places."""
    return sorted(name for e in events if "Delta" not in (name := f"{type(e).__name__} {e.agent_path}"))


async def test_a_late_reader_of_a_running_answer(store: Store) -> None:
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="one two", midway=gate.wait))
    async with runtime(store, model, Desk()) as process:
        live = await process.start(Chat(model=model, message="go"), "desk")
        late = live.events()
        got = [await anext(late) for _ in range(4)]
        assert [e.text for _, e in got if isinstance(e, TextDelta)] == ["one ", "two"]
        gate.set()
        rest = [event async for event in live.events(got[-1][0])]
        assert rest[0][0] > got[-1][0]
        assert [type(e) for _, e in rest].count(TurnCompleted) == 1


@pytest.mark.parametrize("ending", ["good", "bad", "stopped"])
async def test_the_result_from_the_journal_is_the_live_one(store: Store, ending: str) -> None:
    opened = asyncio.Event()
    last = {"good": "end", "bad": Answer(text="half", error=OverloadedError("busy"))}
    turn = [call("look", where="here"), call("child", query="go")]
    script = {"the child": [call("look", where="in"), "in"]}
    stopped = Answer(text="half", midway=opened.wait)
    model = Steady(turn, call("look", where="x"), last.get(ending, stopped), scripts=script)
    async with runtime(store, model, Desk()) as process:
        live = await process.start(Chat(model=model, message="go"), "desk")
        if ending == "stopped":
            await state(lambda: len(model.requests) == 5)
            await process.stop(OPERATOR, live.id)
        result = await live.result()
    other = await runtime(store, ScriptedModel()).result(OPERATOR, live.id)
    for field in [field for field in dataclasses.fields(result) if field.compare]:
        assert getattr(other, field.name) == getattr(result, field.name), field.name
    assert result.status == {"good": "completed", "bad": "failed", "stopped": "cancelled"}[ending]


async def test_a_runtime_without_a_watchdog_drops_runs_that_are_done(store: Store) -> None:
    with ScriptedModel(*["ok"] * 250) as model:
        runs = runtime(store, model, AgentConfig())
        ids = []
        for _ in range(250):
            live = await runs.start(Chat("x", model=model), "agent")
            assert (await live.result()).text == "ok"
            ids.append(live.id)
        assert sum(runs.live(OPERATOR, id) is not None for id in ids) <= 100
        assert (await runs.result(OPERATOR, ids[0])).text == "ok"
        await runs.close()


async def test_the_result_of_a_run_that_went_on_elsewhere(store: Store) -> None:
    class Asks(Desk):
        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
            return Ask()

    model = Steady(call("look", where="here"), "end")
    first, second = runtime(store, model, Asks()), runtime(store, model, Asks())
    suspended = await (await first.start(Chat(model=model, message="go"), "desk")).result()
    assert suspended.status == "suspended"
    await second.approve(OPERATOR, suspended.waiting[0].key)
    await (await second.resume(OPERATOR, suspended.run_id)).result()
    assert (await first.result(OPERATOR, suspended.run_id)).text == "end"


async def test_means_are_those_of_the_process(store: Store) -> None:
    got: list[object] = []

    @tool(effect="read")
    async def means(context: ToolContext) -> str:
        """Use the product's own object."""
        got.append(context.deps)
        return "used"

    model = Steady(call("means"), "end")
    agent = Desk()
    agent.tools = (means,)
    async with runtime(store, model, agent, deps="theirs") as process:
        await (await process.start(Chat(model=model, message="go"), "desk")).result()
    assert got == ["theirs"]


@pytest.mark.parametrize("other", [Scope("acme", "bob"), Scope("rival", "ann"), Scope("acme"), TenantScope("rival")])
async def test_a_run_out_of_reach_is_unknown_to_every_method(store: Store, other: AnyScope) -> None:
    with ScriptedModel("done") as model:
        process = runtime(store, model, Desk())
        live = await process.start(Chat("go", model=model, scope=Scope("acme", "ann")), "desk")
        await live.result()
    for run_id in (live.id, "nobody"):
        assert process.live(other, run_id) is None
        for method, given in (
            (process.result, ()),
            (process.resume, ()),
            (process.replay, ()),
            (process.stop, ()),
            (process.retry, ()),
            (process.steer, ("x",)),
            (process.fork, (1,)),
            (process.create_fork, (1,)),
        ):
            with pytest.raises(UnknownRunError, match=f"run {run_id!r}"):
                await method(other, run_id, *given)  # type: ignore[operator]
    for reader in (Scope("acme", "ann"), TenantScope("acme"), OPERATOR):
        assert process.live(reader, live.id) is live
        assert (await process.result(reader, live.id)).text == "done"
