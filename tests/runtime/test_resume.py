"""A run that is parked at any of its events goes on in another process as if nothing had been."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    Continue,
    Done,
    Finish,
    MemoryStore,
    Message,
    NextStep,
    NotDone,
    Resources,
    RunContext,
    RunEvent,
    RunResult,
    Scope,
    SystemMessage,
    Tool,
    ToolContext,
    ToolOrchestrator,
    UserMessage,
    tool,
)
from concertino.agents import delegate
from concertino.errors import ConfigurationError, RunEndedError
from concertino.runtime import Runtime
from concertino.storage import Store
from concertino.testing import ScriptedModel, call

from .kit import Steady, ended, is_valid, measured, plain, runtime, texts, wire

Tally = Counter[tuple[str, str]]


@dataclass
class Notes:
    """An agent's own state."""

    steps: int = 0


def tools(ran: Tally) -> tuple[Tool, ...]:
    """One tool of each effect; *ran* counts the bodies that ran, by the call's key."""

    @tool(effect="read")
    async def look(n: int, context: ToolContext) -> str:
        """Look."""
        ran["read", context.key] += 1
        await asyncio.sleep(0)
        return f"seen {n}"

    @tool(effect="idempotent")
    async def put(n: int, context: ToolContext) -> str:
        """Put."""
        await asyncio.sleep(0)
        ran["idempotent", context.key] += 1
        return f"put {n}"

    async def probe(key: str) -> Done | NotDone:
        return Done("paid") if ran["once", key] else NotDone()

    @tool(effect="once", probe=probe)
    async def pay(n: int, context: ToolContext) -> str:
        """Pay."""
        await asyncio.sleep(0)
        ran["once", context.key] += 1
        await asyncio.sleep(0)
        return "paid"

    return look, put, pay


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."


class Desk(AgentConfig[Notes]):
    """Has all that a run can have: a state, a look-up in advance, sub-agents, tools of each effect."""

    name = "desk"
    prompt = "You are a desk."

    def __init__(self, ran: Tally) -> None:
        mine = tools(ran)
        self.tools = (*mine, delegate(Child(), description="A child.", tools=mine))

    def initialize_agent_state(self, run: RunContext[Notes]) -> Notes:
        return Notes()

    async def prepare(self, run: RunContext[Notes]) -> list[Message]:
        return [SystemMessage(await run.ask("what first?", system="Aside."))]

    def should_continue_loop(self, run: RunContext[Notes]) -> NextStep:
        run.agent_state.steps += 1
        return Continue() if run.state.has_tool_calls else Finish()

    async def conclude(self, run: RunContext[Notes], text: str) -> str:
        said = await run.ask("what last?", system="Aside.")
        return f"{text} {said}: {run.state.step} steps, {run.state.iteration} calls, {run.agent_state.steps} asked."


def model() -> Steady:
    return Steady(
        [call("look", n=1), call("put", n=2), call("pay", n=3)],
        [call("child", query="a"), call("child", query="b"), call("nobody")],
        [call("pay", n=4), call("pay", n=5)],
        "It is done.",
        scripts={
            "the child": [[call("look", n=1), call("pay", n=2)], call("put", n=3), "child's answer"],
            "Aside": ["usage_booked"],
        },
    )


def chat(given: ScriptedModel) -> Chat:
    history: list[Message] = [UserMessage("before"), SystemMessage("yes")]
    return Chat(model=given, message="go", history=history, summary="sum", scope=Scope(user="u"))


def of_desk(given: ScriptedModel) -> list[Any]:
    return [request for request in given.requests if "desk" in request.system]


async def undisturbed() -> tuple[ScriptedModel, RunResult, int]:
    given, events = model(), list[RunEvent]()
    run = ToolOrchestrator(
        chat(given), Desk(Counter()), observers=[events.append], resources=Resources(store=MemoryStore())
    )
    return given, await run.run(), len(events)


def check(lives: list[Steady], result: RunResult, ran: Tally, whole: ScriptedModel, wanted: RunResult) -> None:
    assert (result.status, result.text, result.error) == ("completed", wanted.text, None)
    assert result.messages == wanted.messages
    assert result.tool_calls == wanted.tool_calls
    assert (result.steps, result.data) == (wanted.steps, wanted.data)
    again = len(result.usage) - len(wanted.usage)
    assert 0 <= again <= 2 * (len(lives) - 1), "one attempt of each agent at most was in flight in each life"
    assert not measured(wanted.usage) - measured(result.usage)
    assert {r.source for r in result.usage} <= {"measured", "estimated", "unknown"}
    for (effect, key), times in ran.items():
        assert times <= (1 if effect == "once" else len(lives)), (effect, key)
    expected = [wire(request) for request in of_desk(whole)]
    for life in lives:
        sent = [wire(request) for request in of_desk(life)]
        first = expected.index(sent[0]) if sent else 0
        assert sent == expected[first : first + len(sent)]
    assert {wire(r) for life in lives for r in life.requests} == {wire(r) for r in whole.requests}


async def life(
    store: Store, run_id: str, ran: Tally, at: int | None, *, resume: bool
) -> tuple[Steady, RunResult | None]:
    """One life of a run, which is parked at its event number *at*."""
    given, number = model(), 0

    def watch(event: RunEvent) -> None:
        nonlocal number
        number += 1
        if number == at:
            run.park()

    asked = Chat(model=given, scope=Scope(user="u")) if resume else chat(given)
    resources = Resources(store=store)
    run = ToolOrchestrator(asked, Desk(ran), resources=resources, run_id=run_id, resume=resume, observers=[watch])
    task = asyncio.create_task(run.run())
    await asyncio.wait([task])
    return given, None if task.cancelled() else task.result()


@pytest.mark.parametrize("part", range(4))
async def test_parked_at_any_event_and_taken_up(part: int) -> None:
    whole, wanted, many = await undisturbed()
    for at in range(1 + part, many + 1, 4):
        store, ran = MemoryStore(), Tally()
        first, result = await life(store, "r", ran, at, resume=False)
        lives = [first]
        stored = await store.run(OPERATOR, "r")
        assert stored is not None
        if stored.end is None:
            assert result is None
            second, result = await life(store, "r", ran, None, resume=True)
            lives.append(second)
        else:
            result = await runtime(store, model()).result(OPERATOR, "r")
        assert result is not None
        check(lives, result, ran, whole, wanted)


@pytest.mark.parametrize("stride", [1, 4, 9, 16, 25])
async def test_parked_again_and_again(store: Store, stride: int) -> None:
    whole, wanted, many = await undisturbed()
    ran, lives = Tally(), list[Steady]()
    for turn in range(4 * many):
        given, _ = await life(store, "r", ran, stride * (turn + 1), resume=turn > 0)
        lives.append(given)
        stored = await store.run(OPERATOR, "r")
        if stored is not None and stored.end is not None:
            break
    check(lives, await runtime(store, model()).result(OPERATOR, "r"), ran, whole, wanted)
    assert (await runtime(store, model()).result(OPERATOR, "r")).usage == tuple(await store.usage(OPERATOR, "r"))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 0.95])
async def test_a_runtime_that_closes_leaves_its_runs_to_the_next(store: Store, share: float) -> None:
    whole, wanted, many = await undisturbed()
    ran = Tally()
    first, second = model(), model()
    async with runtime(store, first, Desk(ran)) as process:
        lives = [await process.start(chat(first), "desk") for _ in range(3)]
        async for number, _ in lives[0].events():
            if number >= share * many:
                break
    ids = [live.id for live in lives]
    async with runtime(store, second, Desk(ran)) as process:  # its watchdog takes them up by itself
        for run_id in ids:
            await ended(store, run_id)
            result = await process.result(OPERATOR, run_id)
            assert (result.text, result.messages) == (wanted.text, wanted.messages)
            requests = [wire(request) for _, _, request in await process.replay(OPERATOR, run_id)]
            assert list(dict.fromkeys(requests)) == [wire(request) for request in of_desk(whole)]
    assert max(times for (effect, _), times in ran.items() if effect == "once") == 1
    assert {wire(r) for r in (*first.requests, *second.requests)} == {wire(r) for r in whole.requests}


async def test_an_ended_run_or_an_unknown_agent_is_not_taken_up(store: Store) -> None:
    ran, given = Tally(), model()
    async with runtime(store, given, Desk(ran)) as process:
        live = await process.start(chat(given), "desk")
        await live.events().__anext__()
    with pytest.raises(ConfigurationError, match="no agent 'desk'"):
        await runtime(store, given, Child()).resume(OPERATOR, live.id)
    process = runtime(store, given, Desk(ran))
    result = await (await process.resume(OPERATOR, live.id)).result()
    assert is_valid(result.messages)
    assert "there is no tool of this name" in texts(result.messages)[5]
    with pytest.raises(RunEndedError):
        await process.resume(OPERATOR, live.id)


async def test_a_sub_agents_run_is_taken_up_with_its_root(store: Store) -> None:
    ran, given = Tally(), model()
    async with runtime(store, given, Desk(ran)) as process:
        live = await process.start(chat(given), "desk")
        async for _, event in live.events():
            if event.agent_path == "desk/child-2":
                break
    child = next(run for run in await store.runs(OPERATOR, root_id=live.id) if run.start.parent_id)
    taken: Runtime = runtime(store, given, Desk(ran))
    assert (await taken.resume(OPERATOR, child.start.run_id)).id == live.id
    assert (await taken.result(OPERATOR, live.id)).status == "completed"
    own = await taken.result(OPERATOR, child.start.run_id)
    assert (own.status, own.text) == ("completed", "child's answer")
    assert {plain(r)["system"] for r in given.requests} == {"You are a desk.", "You are the child.", "Aside."}
