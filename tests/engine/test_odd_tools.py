"""Tools, calls and sub-agents that do what nobody should: the run goes on, and ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    ToolContext,
    ToolError,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import delegate
from concertino.events import ToolFailed
from concertino.messages import AssistantMessage, Text, ToolCall, ToolMessage
from concertino.providers import Reply
from concertino.testing import ScriptedModel, call
from concertino.usage import Tokens

from ..tasks import background
from .conftest import Play


def results(model: ScriptedModel) -> list[str]:
    """The tool results in the last request."""
    return [m.content for m in model.requests[-1].messages if isinstance(m, ToolMessage)]


class Odd(BaseException):
    """No Exception."""


class Unspeakable(Exception):  # noqa: N818 - a library's class need not end in Error
    """It cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "text"),
    [(SystemExit(3), "SystemExit: 3"), (Odd("x"), "Odd: x"), (Unspeakable(), "Unspeakable")],
    ids=["exit", "odd", "unspeakable"],
)
@pytest.mark.parametrize("blocking", [True, False])
async def test_whatever_a_tool_raises_is_its_result(
    play: Play, error: BaseException, text: str, blocking: bool
) -> None:
    @tool(name="fail")
    async def fail() -> None:
        """Fail."""
        raise error

    @tool(name="fail")
    def fail_in_a_thread() -> None:
        """Fail."""
        raise error

    with ScriptedModel(call("fail"), "sorry") as model:
        seen = await play(model, tools=[fail_in_a_thread if blocking else fail])
    assert results(model) == [text]
    assert len(seen.of(ToolFailed)) == 1
    assert seen.result.status == "completed"


async def test_steps_of_any_kind_are_shown_and_stored(play: Play) -> None:
    @tool
    async def look(context: ToolContext) -> str:
        """Look."""
        with context.progress.begin(ToolError) as step:  # type: ignore[arg-type]
            step.send(7, None)  # type: ignore[arg-type]
        return "seen"

    store = MemoryStore()
    seen = await play(ScriptedModel(call("look"), "ok"), tools=[look], store=store)
    assert seen.result.status == "completed"
    stored = await store.messages(OPERATOR, seen.result.run_id)
    assert [kept.progress[0]["parts"] for kept in stored if kept.progress] == [["7", "None"]]


class Repeating:
    """A model that gives all its calls the same id, as some servers do."""

    provider = "scripted"
    name = "repeating"

    def __init__(self, *turns: tuple[str, ...]) -> None:
        self._turns = list(turns)

    async def stream(self, request: Any) -> Any:
        """The next turn; then an answer."""
        names = self._turns.pop(0) if self._turns else ()
        calls = tuple(ToolCall("call_0", name, '{"query": "x"}') for name in names)
        yield Reply(AssistantMessage(calls or (Text("done"),)), Tokens(prompt=1, completion=1))

    async def close(self) -> None:
        """Nothing to release."""


class Child(AgentConfig[None]):
    name = "child"

    def get_model_id(self, run: Any) -> str:
        return "scripted:script"


@pytest.mark.parametrize("turns", [(("child",), ("child",)), (("child", "child"),)], ids=["two turns", "one turn"])
async def test_sub_agents_are_told_apart_where_ids_of_calls_come_again(turns: Any) -> None:
    store = MemoryStore()
    model = ScriptedModel("one", "two")
    chat = Chat(model=Repeating(*turns), message="go")
    registry = ToolRegistry([delegate(Child(), description="A child.")])
    result = await ToolOrchestrator(
        chat, AgentConfig(), registry, resources=Resources(store=store, models=lambda _: model)
    ).run()
    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["one", "two"]
    runs = await store.runs(OPERATOR, root_id=result.run_id)
    assert {run.start.agent_path: run.end and run.end.answer for run in runs} == {
        "agent": "done",
        "agent/child-1": "one",
        "agent/child-2": "two",
    }
    assert tuple(await store.usage(OPERATOR, result.run_id)) == result.usage


async def test_what_tools_book_is_told_apart_where_ids_of_calls_come_again() -> None:
    @tool
    async def look(query: str, context: ToolContext) -> None:
        """Look."""
        context.add_usage(provider="scripted", model="vision", tokens=Tokens(prompt=7, completion=1))

    chat = Chat(model=Repeating(("look", "look")), message="go")
    result = await ToolOrchestrator(chat, AgentConfig(), ToolRegistry([look])).run()
    assert [record.model for record in result.usage].count("vision") == 2


class Orphan(AgentConfig[None]):
    name = "orphan"
    prompt = "You are the orphan."


async def test_a_sub_agent_that_outlives_its_run_is_ended(play: Play) -> None:
    begun, over = asyncio.Event(), asyncio.Event()
    orphans: list[asyncio.Task[None]] = []

    async def spawn(context: ToolContext, when: asyncio.Event | None) -> None:
        if when is not None:
            await when.wait()
        await context.spawn(Orphan(), "x")

    @tool
    async def start(context: ToolContext) -> str:
        """Start a sub-agent and forget it, and another one when the run is over."""
        orphans.extend(asyncio.create_task(spawn(context, when)) for when in (None, over))
        await begun.wait()
        return "started"

    def talk(request: Any) -> str:
        begun.set()
        return "word " * 3_000

    with ScriptedModel(call("start"), "done", scripts={"the orphan": [talk]}) as model:
        seen = await play(model, tools=[start], store=MemoryStore())
    over.set()
    ended = await asyncio.gather(*orphans, return_exceptions=True)
    assert seen.result.status == "completed"
    assert [type(error) for error in ended] == [ToolError, ToolError]
    assert background() == set()
