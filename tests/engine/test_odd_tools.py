"""Tools, calls and sub-agents that do what nobody should: the run goes on, and ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Attachment,
    Chat,
    MemoryStore,
    Resources,
    ToolContext,
    ToolError,
    ToolOrchestrator,
    ToolRegistry,
    ToolResult,
    tool,
)
from concertino.agents import delegate
from concertino.events import Notice, ToolFailed, ToolStreamed
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


class Exits(Exception):  # noqa: N818 - as above
    """Printing it would end the process."""

    def __str__(self) -> str:
        raise SystemExit(7)


class ExitingToolError(ToolError):
    """As above, for an error whose text the tool chooses."""

    def __str__(self) -> str:
        raise SystemExit(7)


ERRORS = {
    "exit": (SystemExit(3), "SystemExit: 3"),
    "odd": (Odd("x"), "Odd: x"),
    "unspeakable": (Unspeakable(), "Unspeakable"),
    "exits": (Exits(), "Exits"),
    "exiting tool error": (ExitingToolError(), "ExitingToolError"),
    "interrupt": (KeyboardInterrupt(), "KeyboardInterrupt: "),
    "generator exit": (GeneratorExit(), "GeneratorExit: "),
    "tool error": (ToolError("no"), "no"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("kind", ["async", "thread", "generator"])
@pytest.mark.parametrize("stored", [False, True])
async def test_whatever_a_tool_raises_is_its_result(play: Play, name: str, kind: str, stored: bool) -> None:
    error, text = ERRORS[name]

    @tool(name="fail")
    async def fail() -> None:
        """Fail."""
        raise error

    @tool(name="fail")
    def fail_in_a_thread() -> None:
        """Fail."""
        raise error

    @tool(name="fail")
    async def fail_midway() -> Any:
        """Fail."""
        yield "a part"
        raise error

    @tool
    async def succeed() -> str:
        """Succeed."""
        return "done"

    failing = {"async": fail, "thread": fail_in_a_thread, "generator": fail_midway}[kind]
    with ScriptedModel([call("fail"), call("succeed")], "sorry") as model:
        seen = await play(model, tools=[failing, succeed], store=MemoryStore() if stored else None)
    assert results(model) == [text, "done"]
    assert len(seen.of(ToolFailed)) == 1
    assert seen.result.status == "completed"


@pytest.mark.parametrize("stored", [False, True])
async def test_a_tool_that_cancels_its_own_task_fails_alone(play: Play, stored: bool) -> None:
    @tool
    async def cancel() -> str:
        """Cancel."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "not reached"

    with ScriptedModel(call("cancel"), "sorry") as model:
        seen = await play(model, tools=[cancel], store=MemoryStore() if stored else None)
    assert results(model) == ["the tool was cancelled from within"]
    assert seen.result.status == "completed"


@pytest.mark.parametrize(
    "shape", [str, lambda text: {"text": text}, lambda text: [text] * 3], ids=["text", "dict", "list"]
)
async def test_a_huge_result_is_bounded_before_it_is_stored(play: Play, shape: Any) -> None:
    @tool(max_bytes=10_000)
    async def dump() -> Any:
        """Dump."""
        return ToolResult(shape("ä" * 1_000_000), data=["x"] * 100_000, summary="y" * 100_000)

    with ScriptedModel(call("dump"), "big") as model:
        seen = await play(model, tools=[dump], store=MemoryStore())
    (message,) = [m for m in seen.result.messages if isinstance(m, ToolMessage)]
    assert len((message.whole or message.content).encode()) < 20_500
    assert "left out: the limit is 10,000 bytes" in (message.whole or message.content)
    assert len(message.summary or "") < 10_500
    assert seen.result.data == {}
    assert [notice.code for notice in seen.of(Notice)] == ["tool_data_dropped"]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_large_structure_is_encoded_in_a_thread(play: Play, streams: bool) -> None:
    encoded: list[bool] = []

    class Row:
        def model_dump(self, mode: str) -> str:
            encoded.append(threading.current_thread() is threading.main_thread())
            return "row"

    rows = {"small": [Row()], "large": [Row(), *["x"] * 200_000]}

    @tool(name="dump")
    async def dump(size: str) -> Any:
        """Dump."""
        return ToolResult(rows[size], data={"rows": 1})

    @tool(name="dump")
    async def stream(size: str) -> Any:
        """Dump."""
        yield rows[size]

    with ScriptedModel(call("dump", size="small"), call("dump", size="large"), "big") as model:
        seen = await play(model, tools=[stream if streams else dump])
    assert seen.result.status == "completed"
    assert encoded == ([True, True, False, False] if streams else [True, False])


async def test_a_streamed_piece_is_bounded(play: Play) -> None:
    @tool(max_bytes=1_000)
    async def dump() -> Any:
        """Dump."""
        yield "x" * 100_000

    with ScriptedModel(call("dump"), "big") as model:
        seen = await play(model, tools=[dump])
    assert [len(event.content) < 1_200 for event in seen.of(ToolStreamed)] == [True]


async def test_a_call_without_a_thread_fails_and_never_runs(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    start, failures = threading.Thread.start, [True]

    @tool(effect="once")
    def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        return "paid"

    def start_or_fail(thread: threading.Thread) -> None:
        if thread.name == "concertino tool" and failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    with ScriptedModel(call("pay", n=1), call("pay", n=2), "ok") as model:
        seen = await play(model, tools=[pay])
    assert [m.content for m in seen.result.messages if isinstance(m, ToolMessage)] == [
        "RuntimeError: can't start new thread",
        "paid",
    ]
    assert ran == [2]


@pytest.mark.parametrize("stop", ["length", "tool_calls"])
async def test_arguments_nested_too_deeply_are_a_failed_call(play: Play, stop: Any) -> None:
    deep = Repeating(("look",), arguments="[" * 100_000, stop=stop)
    result = await ToolOrchestrator(Chat("go", model=deep), AgentConfig(), ToolRegistry([look])).run()
    assert result.status == "completed"
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [True]


async def test_an_invented_name_reaches_no_event_and_no_message(play: Play) -> None:
    invented = "\x1b[2Jlook"
    with ScriptedModel([call(invented, query="x"), call("look", query="x")], "ok") as model:
        seen = await play(model, tools=[look])
    assert invented not in repr(seen.events)
    assert invented not in repr(seen.result)
    assert [c.name for c in seen.result.messages[-4].tool_calls] == ["unknown_tool", "look"]  # type: ignore[union-attr]
    assert results(model) == ["there is no tool of this name; the tools are: look", "seen"]


async def test_files_that_no_tool_can_read_are_reported() -> None:
    chat = Chat("What is in it?", model=ScriptedModel("?"), attachments=[Attachment("plan.pdf")])
    events = [event async for event in ToolOrchestrator(chat, AgentConfig()).stream()]
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert notice.code == "attachments_unread"
    assert "only the names of the 1 attached files" in notice.text


@tool
async def look(query: str) -> str:
    """Look."""
    return "seen"


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


async def test_the_progress_of_a_call_is_bounded(play: Play) -> None:
    @tool
    async def look(context: ToolContext) -> str:
        """Look."""
        for number in range(500):
            step = context.progress.begin(f"step {number}")
        for number in range(500):
            step.send("x" * 3_000, str(number))
        return "seen"

    store = MemoryStore()
    seen = await play(ScriptedModel(call("look"), "ok"), tools=[look], store=store)
    (steps,) = [kept.progress for kept in await store.messages(OPERATOR, seen.result.run_id) if kept.progress]
    assert [steps[0]["id"], steps[-1]["id"], len(steps)] == [401, 500, 100]
    assert [len(steps[-1]["parts"]), len(steps[-1]["parts"][0]), steps[-1]["parts"][-1]] == [100, 2_000, "499"]


class Repeating:
    """A model that gives all its calls the same id, as some servers do."""

    provider = "scripted"
    name = "repeating"

    def __init__(self, *turns: tuple[str, ...], arguments: str = '{"query": "x"}', stop: Any = "end") -> None:
        self._turns = list(turns)
        self._arguments = arguments
        self._stop = stop

    async def stream(self, request: Any) -> Any:
        """The next turn; then an answer."""
        names = self._turns.pop(0) if self._turns else ()
        calls = tuple(ToolCall("call_0", name, self._arguments) for name in names)
        message = AssistantMessage(calls or (Text("done"),), self._stop if calls else "end")
        yield Reply(message, Tokens(prompt=1, completion=1))

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
