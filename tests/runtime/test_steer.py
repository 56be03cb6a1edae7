"""A message put into a running agent: before the next step, in order, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    Fail,
    Finish,
    Limits,
    MemoryStore,
    NextStep,
    Operator,
    Resources,
    RunContext,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolOrchestrator,
    UserMessage,
    delegate,
    tool,
)
from concertino.errors import ConfigurationError, RunEndedError, RunStateError, UnknownRunError
from concertino.events import RunEvent, Steered, StepStarted, ToolStarted
from concertino.storage import Store
from concertino.testing import Answer, FaultyStore, Points, ScriptedModel, call

from .kit import is_valid, plain, runtime, seen, state


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (look,)


def said(messages: Any) -> list[str]:
    return [m.text for m in messages if isinstance(m, UserMessage)]


async def test_between_two_steps_in_order(store: Store) -> None:
    opened = asyncio.Event()
    model = ScriptedModel(Answer(calls=(call("look", n=1),), before=opened.wait), "end")
    process, other = runtime(store, model, Desk()), runtime(store, model)
    live = await process.start(Chat(model=model, message="go"), "desk")
    for number, sender in enumerate((process, other, process)):
        await sender.steer(Operator("ann"), live.id, f"note {number}")
    opened.set()
    events = await seen(live)
    result = await live.result()
    assert said(result.messages) == ["go", "note 0", "note 1", "note 2"]
    assert said(model.requests[1].messages) == ["go", "note 0", "note 1", "note 2"]
    assert said(model.requests[0].messages) == ["go"]
    assert [e.text for e in events if isinstance(e, Steered)] == ["note 0", "note 1", "note 2"]
    kinds = [type(e) for e in events if isinstance(e, Steered | StepStarted | ToolStarted)]
    assert kinds == [StepStarted, ToolStarted, Steered, Steered, Steered, StepStarted]
    assert is_valid(result.messages)
    assert [plain(r) for _, _, r in await process.replay(OPERATOR, live.id)] == [plain(r) for r in model.requests]


async def test_an_agent_that_was_about_to_finish_takes_another_step(store: Store) -> None:
    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="done", midway=opened.wait), "done again")
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await process.steer(OPERATOR, live.id, "and this?")
    opened.set()
    result = await live.result()
    assert (result.status, result.text, result.steps) == ("completed", "done again", 2)
    assert said(result.messages) == ["go", "and this?"]


async def test_an_agent_that_ends_by_itself_is_steered_too(store: Store) -> None:
    class Ends(Desk):
        def after_step(self, run: RunContext[None], outcome: Any) -> Any:
            return Finish() if run.state.step == 2 else outcome

    opened = asyncio.Event()
    model = ScriptedModel(call("look", n=1), Answer(text="done", midway=opened.wait), "again")
    process = runtime(store, model, Ends())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await state(lambda: len(model.requests) == 2)
    await process.steer(OPERATOR, live.id, "and this?")
    opened.set()
    assert said((await live.result()).messages) == ["go", "and this?"]


@pytest.mark.parametrize("at", range(1, 16))
async def test_once_across_lives(at: int) -> None:
    """Sent at an event, and parked right after it: it is there once, and where it was."""
    store = MemoryStore()
    steps = [call("look", n=1), call("look", n=2), "end", "end", "end"]
    first, second = ScriptedModel(*steps), ScriptedModel(*steps)
    number = 0

    def watch(event: RunEvent) -> None:
        nonlocal number
        number += 1
        if number == at:
            run.park()

    run = ToolOrchestrator(
        Chat(model=first, message="go"), Desk(), run_id="r", observers=[watch], resources=Resources(store=store)
    )
    task = asyncio.create_task(run.run())
    process = runtime(store, second, Desk())
    while not task.done():
        await asyncio.sleep(0)
        if number == at - 1 and await store.run(OPERATOR, "r") and not await store.commands(OPERATOR, "r"):
            await process.steer(OPERATOR, "r", "one")
            await process.steer(OPERATOR, "r", "two")
    stored = await store.run(OPERATOR, "r")
    assert stored is not None
    if stored.end is None:
        if not await store.commands(OPERATOR, "r"):
            await process.steer(OPERATOR, "r", "one")
            await process.steer(OPERATOR, "r", "two")
        result = await (await process.resume(OPERATOR, "r")).result()
        assert said(result.messages) == ["go", "one", "two"]
        assert [said(r.messages) for r in second.requests][-1] == ["go", "one", "two"]
    kept = [m.message for m in await store.messages(OPERATOR, "r")]
    assert is_valid(kept)
    assert said(kept) in (["go", "one", "two"], ["go"])


async def test_one_that_was_taken_in_is_not_taken_in_again(store: Store) -> None:
    opened = asyncio.Event()
    model = ScriptedModel(call("look", n=1), Answer(text="x", before=opened.wait))
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await process.steer(OPERATOR, live.id, "note")
    await state(lambda: len(model.requests) == 2)
    taken = said(model.requests[1].messages)
    await process.close()
    again = ScriptedModel("one", "two")
    result = await (await runtime(store, again, Desk()).resume(OPERATOR, live.id)).result()
    assert said(result.messages) == ["go", "note"]
    if taken == ["go", "note"]:
        assert plain(again.requests[0]) == plain(model.requests[1])
        assert result.text == "one"


async def test_a_suspended_run_reads_it_when_it_goes_on(store: Store) -> None:
    class Asks(Desk):
        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
            return Ask()

    model = ScriptedModel(call("look", n=1), "end")
    process = runtime(store, model, Asks())
    suspended = await (await process.start(Chat(model=model, message="go"), "desk")).result()
    await process.steer(OPERATOR, suspended.run_id, "meanwhile")
    await process.approve(OPERATOR, suspended.waiting[0].key)
    result = await (await process.resume(OPERATOR, suspended.run_id)).result()
    assert said(result.messages) == ["go", "meanwhile"]
    assert is_valid(result.messages)


async def test_without_a_store() -> None:
    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="x", before=opened.wait), "y")
    run = ToolOrchestrator(Chat(model=model, message="go"), Desk())
    task = asyncio.create_task(run.run())
    await state(lambda: bool(model.requests))
    run.steer("one")
    run.steer("two")
    opened.set()
    assert said((await task).messages) == ["go", "one", "two"]


async def test_what_cannot_be_steered(store: Store) -> None:
    model = ScriptedModel("end")
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    await live.result()
    with pytest.raises(ConfigurationError, match="empty"):
        await process.steer(OPERATOR, live.id, " \n")
    with pytest.raises(RunEndedError):
        await process.steer(OPERATOR, live.id, "late")
    with pytest.raises(UnknownRunError):
        await process.steer(OPERATOR, "nobody", "x")


async def test_a_limit_still_holds(store: Store) -> None:
    """Steering calls for another step, and does not take the limit away."""
    opened = asyncio.Event()
    model = ScriptedModel(Answer(calls=(call("look", n=1),), before=opened.wait), "end")
    agent = Desk()
    agent.tool_call_limit = 2
    process = runtime(store, model, agent)
    live = await process.start(Chat(model=model, message="go"), agent)
    await process.steer(OPERATOR, live.id, "note")
    opened.set()
    result = await live.result()
    assert result.status == "completed"
    assert isinstance(model.requests[-1].messages[-1], SystemMessage)


# -- at the end --------------------------------------------------------------------------------------------------------


def at_end(store: Store, act: Callable[[], Awaitable[None]], point: str = "append:ended:before") -> FaultyStore:
    """Return *store*, which calls *act* at *point*, the first time."""
    acted = False

    async def at(name: str, _number: int) -> None:
        nonlocal acted
        if name == point and not acted:
            acted = True
            await act()

    return FaultyStore(store, Points(at))


class Concludes(Desk):
    async def conclude(self, run: RunContext[None], text: str) -> str:
        return f"{text}!"


@pytest.mark.parametrize("agent", [Desk, Concludes])
async def test_a_message_that_arrives_before_the_end_is_recorded_keeps_the_run_going(
    store: Store, agent: type[Desk]
) -> None:
    async def send() -> None:
        await process.steer(OPERATOR, live.id, "and this?")

    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=opened.wait), "done again")
    process = runtime(at_end(store, send), model, agent())
    live = await process.start(Chat(model=model, message="go", history=[UserMessage("before")]), "desk")
    opened.set()
    result = await live.result()
    tail = "!" if agent is Concludes else ""
    assert (result.status, result.text) == ("completed", "done again" + tail)
    assert said(model.requests[1].messages) == ["before", "go", "and this?"]
    assert is_valid(result.messages)
    stored = await runtime(store, model, agent()).result(OPERATOR, live.id)
    assert (stored.text, stored.messages) == (result.text, result.messages)


async def test_a_message_after_the_end_is_refused(store: Store) -> None:
    refused: list[Exception] = []

    async def send() -> None:
        with pytest.raises(RunEndedError) as error:
            await process.steer(OPERATOR, live.id, "late")
        refused.append(error.value)

    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=opened.wait))
    process = runtime(at_end(store, send, "append:ended:after"), model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    opened.set()
    assert said((await live.result()).messages) == ["go"]
    assert refused


async def test_a_stop_before_the_end_counts_if_a_message_comes_first(store: Store) -> None:
    async def send() -> None:
        await process.steer(OPERATOR, live.id, "and this?")
        stopping.append(asyncio.create_task(process.stop(OPERATOR, live.id)))
        await asyncio.sleep(0)

    stopping: list[asyncio.Task[Any]] = []
    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=opened.wait))
    process = runtime(at_end(store, send), model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    opened.set()
    assert (await live.result()).status == "cancelled"
    await stopping[0]
    assert len(model.requests) == 1


async def test_a_sub_agent_reads_its_messages_before_it_ends(store: Store) -> None:
    async def send() -> None:
        (child,) = [run for run in await store.runs(OPERATOR) if run.start.root_id != run.start.run_id]
        await process.steer(OPERATOR, child.start.run_id, "and this?")

    class Child(Desk):
        prompt = "You are the child."

    model = ScriptedModel(call("child", query="a"), "the end", scripts={"the child": ["found", "found more"]})
    parent = AgentConfig[None]()
    parent.tools = (delegate(Child(), name="child", description="A child."),)
    process = runtime(at_end(store, send), model, parent)
    live = await process.start(Chat(model=model, message="go"), parent)
    result = await live.result()
    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["found more"]


@pytest.mark.parametrize("limited", [False, True])
async def test_a_run_that_cannot_take_another_step_has_the_message_in_its_conversation(
    store: Store, limited: bool
) -> None:
    class Stubborn(Desk):
        def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
            return Finish() if limited else Fail("no")

        def on_limit(self, run: RunContext[None], reason: str) -> NextStep:
            return Fail("no")

    async def send() -> None:
        await process.steer(OPERATOR, live.id, "and this?")

    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=opened.wait))
    process = runtime(at_end(store, send), model, Stubborn(), limits=lambda *_: Limits(steps=1))
    live = await process.start(Chat(model=model, message="go"), "desk")
    opened.set()
    result = await live.result()
    assert result.status == "failed"
    assert said(result.messages) == ["go", "and this?"]


async def test_every_message_that_is_accepted_is_read(store: Store) -> None:
    """Messages race the end of the run: each is read by the model, or refused."""
    taken: list[str] = []

    async def send(number: int, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        with suppress(RunEndedError):
            await process.steer(OPERATOR, live.id, f"note {number}")
            taken.append(f"note {number}")

    opened = asyncio.Event()
    model = ScriptedModel(Answer(text="x", before=opened.wait), *["x"] * 40)
    process = runtime(store, model, Desk())
    live = await process.start(Chat(model=model, message="go"), "desk")
    sending = [asyncio.create_task(send(number, 3 * number)) for number in range(40)]
    opened.set()
    result = await live.result()
    await asyncio.gather(*sending)
    assert sorted(said(result.messages)) == sorted(["go", *taken])
    assert sorted(said(model.requests[-1].messages)) == sorted(["go", *taken])


async def test_without_a_store_the_end_is_no_gap_either() -> None:
    class Late(Desk):
        async def conclude(self, run: RunContext[None], text: str) -> str:
            if len(model.requests) == 1:
                orchestrator.steer("one more")
            return text

    model = ScriptedModel("x", "y")
    orchestrator = ToolOrchestrator(Chat(model=model, message="go"), Late())
    with pytest.raises(RunStateError, match="has not started"):
        orchestrator.steer("early")
    result = await orchestrator.run()
    assert (result.text, said(result.messages)) == ("y", ["go", "one more"])
    with pytest.raises(RunEndedError):
        orchestrator.steer("late")
