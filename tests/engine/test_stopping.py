"""However a run is stopped, and whenever: nothing hangs, nothing is lost, nothing is stored twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    ModelRequest,
    Resources,
    RunContext,
    SqliteStore,
    Tool,
    ToolContext,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import delegate
from concertino.errors import StorageError
from concertino.events import RunStarted, StoppedWork, ToolStarted
from concertino.messages import AssistantMessage, Message, SystemMessage, Text, ToolMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.storage import Claim, Entry, Head, RunStart, Store
from concertino.testing import ScriptedModel, call
from concertino.usage import Tokens

from ..tasks import settle
from .conftest import Play


@tool
async def work(turns: int, context: ToolContext) -> str:
    """Work for some turns of the loop."""
    with context.progress.begin("working"):
        for _ in range(turns):
            await asyncio.sleep(0)
    context.add_usage(provider="scripted", model="aside", tokens=Tokens(prompt=1, completion=1))
    return "worked"


class Asking(AgentConfig[None]):
    """Asks before it begins and when it ends."""

    async def prepare(self, run: RunContext[None]) -> list[Message]:
        return [SystemMessage(await run.ask("what first?"))]

    async def conclude(self, run: RunContext[None], text: str) -> str:
        return text + await run.ask("what last?")


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."
    tools = (work,)


def orchestrator(store: Store | None) -> ToolOrchestrator:
    """A run with everything in it: questions aside, tools, two sub-agents side by side."""

    def child(request: ModelRequest) -> Any:
        begun = any(isinstance(message, ToolMessage) for message in request.messages)
        return "done" if begun else [call("work", turns=2), call("work", turns=1)]

    turn = [call("work", turns=3), call("child", query="a"), call("child", query="b")]
    model = ScriptedModel("first", turn, call("work", turns=1), "end", "last", scripts={"the child": [child] * 4})
    registry = ToolRegistry([work, delegate(Child(), description="A child.")])
    return ToolOrchestrator(Chat(model=model, message="go"), Asking(), registry, resources=Resources(store=store))


async def check(stopped: ToolOrchestrator, store: Store) -> None:
    """Result and store agree, and the conversation is one that every provider takes."""
    result = stopped.result
    assert result is not None
    for run in await store.runs(OPERATOR, root_id=stopped.run_id):
        assert run.end is not None, f"{run.start.agent_path} has no end"
        messages = [kept.message for kept in await store.messages(OPERATOR, run.start.run_id)]
        calls = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        assert calls == [m.call_id for m in messages if isinstance(m, ToolMessage)], run.start.agent_path
    top = await store.run(OPERATOR, stopped.run_id)
    if top is not None:
        assert top.end is not None
        assert top.end.status == result.status
        assert [kept.message for kept in await store.messages(OPERATOR, stopped.run_id)] == list(result.messages)
    assert {r.id: r for r in await store.usage(OPERATOR, stopped.run_id)} == {r.id: r for r in result.usage}


async def test_cancelled_at_any_moment(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        for moment in range(1, 120):
            stopped = orchestrator(store)
            task = asyncio.create_task(stopped.run())
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            if moment % 3 == 0:  # and again, while it is ending
                for _ in range(moment % 7):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await settle()
            await check(stopped, store)


@pytest.mark.parametrize("closes", [True, False])
async def test_left_at_any_event(tmp_path: Path, closes: bool) -> None:
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        for most in range(40):
            stopped = orchestrator(store)
            await _leave(stopped, most, closes=closes)
            await settle()
            await check(stopped, store)


async def _leave(stopped: ToolOrchestrator, most: int, *, closes: bool) -> None:
    stream = stopped.stream()
    for _ in range(most + 1):
        await anext(stream, None)
    if closes:
        await stream.aclose()
    del stream
    await asyncio.sleep(0)  # a generator that nobody holds is closed by the loop, in its next turn


async def test_a_run_that_is_left_at_its_first_event_has_a_result() -> None:
    store = MemoryStore()
    stopped = orchestrator(store)
    async with contextlib.aclosing(stopped.stream()) as events:
        assert isinstance(await anext(events), RunStarted)
    assert stopped.result is not None
    assert stopped.result.status == "cancelled"
    stored = await store.run(OPERATOR, stopped.run_id)
    assert stored is not None
    assert stored.state == "cancelled"


class Stuck(MemoryStore):
    """A store that hangs at the end of a run, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.free = asyncio.Event()

    async def append(self, entry: Entry) -> Head:
        if entry.end is not None:
            self.reached.set()
            await self.free.wait()
        return await super().append(entry)


async def test_an_end_that_is_cancelled_is_stored_once() -> None:
    store = Stuck()
    stopped = orchestrator(store)
    task = asyncio.create_task(stopped.run())
    await store.reached.wait()
    store.free.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    await check(stopped, store)


async def test_a_store_that_hangs_keeps_nobody_who_cancels_twice() -> None:
    store = Stuck()
    stopped = ToolOrchestrator(
        Chat(model=ScriptedModel("hi"), message="go"), AgentConfig(), resources=Resources(store=store)
    )
    task = asyncio.create_task(stopped.run())
    for _ in range(2):
        await store.reached.wait()
        store.reached.clear()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.result is not None
    store.free.set()
    await settle()


class Broken(MemoryStore):
    """A store that fails."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> bool:
        if self._where == "begin":
            raise StorageError("the disk is full")
        return await super().begin(start, entry, claim)

    async def append(self, entry: Entry) -> Head:
        if self._where == ("end" if entry.end else "append"):
            raise StorageError("the disk is full")
        return await super().append(entry)


@pytest.mark.parametrize("where", ["begin", "append", "end"])
async def test_a_store_that_fails_fails_the_run(where: str, play: Play, add: Tool) -> None:
    seen = await play(ScriptedModel(call("add", a=1, b=2), "3"), tools=[add], store=Broken(where))
    assert seen.result.status == "failed"
    assert "the disk is full" in seen.result.error
    assert seen.result.text == ("3" if where == "end" else "")


@pytest.mark.parametrize(
    "hook", ["process_tool_calls", "handle_special_tools", "calculate_usage", "interpret_response"]
)
async def test_a_hook_that_fails_beside_open_calls_leaves_them_answered(hook: str, play: Play, add: Tool) -> None:
    def broken(self: Any, run: Any, *_: Any) -> None:
        raise ValueError("boom")

    store = MemoryStore()
    agent = type("Agent", (AgentConfig,), {hook: broken})()
    seen = await play(ScriptedModel([call("add", a=1, b=2)] * 2), agent, tools=[add], store=store)
    assert hook in seen.result.error
    assert [m.call_id for m in seen.result.messages if isinstance(m, ToolMessage)] == ["call_1", "call_2"]
    assert len(seen.result.usage) == 1, "the attempt is booked"
    assert [kept.message for kept in await store.messages(OPERATOR, seen.result.run_id)] == list(seen.result.messages)


async def test_a_hook_that_fails_before_the_first_step_is_stored(play: Play) -> None:
    class Agent(AgentConfig[None]):
        def initialize_agent_state(self, run: RunContext[None]) -> None:
            raise ValueError("boom")

    store = MemoryStore()
    seen = await play(ScriptedModel(), Agent(), store=store)
    stored = await store.run(OPERATOR, seen.result.run_id)
    assert stored is not None
    assert stored.end is not None
    assert stored.end.status == "failed"


async def test_more_calls_than_run_at_once_can_be_left(recwarn: pytest.WarningsRecorder) -> None:
    model = ScriptedModel([call("work", turns=1_000)] * 300)
    stopped = ToolOrchestrator(Chat(model=model, message="go"), AgentConfig(), ToolRegistry([work]))
    async with contextlib.aclosing(stopped.stream()) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                break
    assert stopped.result is not None
    assert len([m for m in stopped.result.messages if isinstance(m, ToolMessage)]) == 300
    assert not recwarn.list


async def test_an_answer_that_was_whole_counts_as_the_provider_reported_it() -> None:
    arrived = asyncio.Event()

    class Lingering:
        """Answers, and does not end its stream."""

        provider = "scripted"
        name = "lingering"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            yield TextChunk("all of it")
            yield Reply(AssistantMessage((Text("all of it"),), "end", "lingering"), Tokens(prompt=70, completion=7))
            arrived.set()
            await asyncio.Event().wait()

        async def close(self) -> None:
            """Nothing to release."""

    orchestrator = ToolOrchestrator(Chat(model=Lingering(), message="go"), AgentConfig())
    task = asyncio.create_task(orchestrator.run())
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert orchestrator.result is not None
    (record,) = orchestrator.result.usage
    assert (record.source, record.tokens.prompt) == ("measured", 70)
    assert orchestrator.result.text == "all of it"


class Stubborn(AgentConfig[None]):
    """Takes no notice of being cancelled in one of the hooks that take their time."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.begun, self.released = asyncio.Event(), asyncio.Event()

    async def prepare(self, run: RunContext[None]) -> list[Message]:
        await self.at("prepare")
        return []

    async def conclude(self, run: RunContext[None], text: str) -> str:
        await self.at("conclude")
        return text

    async def at(self, hook: str) -> None:
        if hook == self.hook:
            self.begun.set()
            while not self.released.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await self.released.wait()


@pytest.mark.parametrize("hook", ["prepare", "conclude"])
@pytest.mark.parametrize("ends", [False, True])
async def test_a_hook_has_as_long_to_end_as_who_stops_the_run_says(hook: str, ends: bool) -> None:
    agent = Stubborn(hook)
    stopped = ToolOrchestrator(Chat(model=ScriptedModel("hi"), message="go"), agent)
    task = asyncio.create_task(stopped.run())
    await agent.begun.wait()
    if ends:
        stopped.stop()
        await asyncio.sleep(0)
        agent.released.set()
    else:
        stopped.stop(deadline=0)
    await asyncio.wait([task])  # ends although the hook has not
    agent.released.set()
    assert stopped.result is not None
    assert stopped.result.receipt is not None
    left = () if ends else (StoppedWork(agent_path="agent", what="hook", name=hook),)
    assert stopped.result.receipt.not_stopped == left
