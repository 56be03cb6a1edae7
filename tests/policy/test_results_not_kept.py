"""`ToolResult(stored=False)`: wherever the engine copies a result, the copy is not kept either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Ask,
    Chat,
    DataPolicy,
    Limits,
    Resources,
    Retention,
    Runtime,
    Scope,
    Special,
    SqliteStore,
    Tool,
    ToolContext,
    ToolError,
    ToolOrchestrator,
    ToolRegistry,
    ToolResult,
    tool,
)
from concertino.agents import MainThreadAgent
from concertino.events import ToolDone, ToolFailed, ToolStreamed
from concertino.messages import AssistantMessage, Media, Text, ToolMessage, UserMessage
from concertino.testing import Answer, ScriptedModel, call
from concertino.tools.builtin import Recall

ANN = Scope("acme", "ann")
WORD = "swordfish"
SECRET = f"the code is {WORD}"
LONG = f"{WORD} opens the door. " * 900
CHART = Media("image/png", "NDcx" * 40, name="code.png")


def result_of(text: str = SECRET) -> ToolResult:
    """Return a result that must not be kept."""
    return ToolResult(text, data={"code": text}, media=(CHART,), stored=False)


@tool(effect="read")
async def vault() -> ToolResult:
    """Open the vault."""
    return result_of()


@tool(effect="read")
async def archive() -> ToolResult:
    """Open the archive."""
    return result_of(LONG)


@tool(effect="once")
async def unlock(door: int) -> ToolResult:
    """Unlock a door."""
    return result_of()


ASKED_AGAIN = asyncio.Event()


async def note_next_request() -> None:
    ASKED_AGAIN.set()


@tool(effect="idempotent")
async def inspect() -> ToolResult:
    """Inspect, and end once the model has been asked again."""
    await ASKED_AGAIN.wait()
    return result_of()


inspect.background = True


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "nothing"


def content_of(folder: Path) -> str:
    """Return the content of all files of a store."""
    return "".join(file.read_bytes().decode("latin-1") for file in folder.iterdir())


def assert_nothing_is_kept(folder: Path) -> None:
    """Assert that no file of the store has the result or its media."""
    kept = content_of(folder)
    at = kept.find(WORD)
    assert at < 0, kept[max(at - 300, 0) : at + 100]
    assert (CHART.data or "") not in kept


class Caller(AgentConfig[None]):
    """Calls the tool itself, in a hook, and quotes the result, with its mark, in a message of its own."""

    name = "caller"
    tools = (vault, look)

    async def build_request(self, run: Any, request: Any) -> Any:
        """Add the result to the request."""
        found = await run.call("vault")
        request.messages = [*request.messages, UserMessage(f"By the way: {found.content}", stored=found.stored)]
        return request


class Quoting(AgentConfig[None]):
    """Moves a result into another message, with its mark."""

    name = "quoting"
    tools = (vault,)

    def handle_special_tools(self, run: Any, call: Any, outcome: Any) -> Any:
        """Replace the conversation."""
        text = f"{outcome.content}\n\nThe user asks: {run.chat.message}"
        return Special(messages=(UserMessage(text, stored=outcome.stored),))


@tool(effect="read")
async def ask_vault(context: ToolContext) -> ToolResult:
    """Ask the vault and pass its result on."""
    return await context.call("vault")


class Plain(AgentConfig[None]):
    """An agent with all tools."""

    name = "plain"
    tools = (vault, unlock, inspect, look, ask_vault)


RUNS: dict[str, tuple[AgentConfig[Any], list[Any]]] = {
    "two effects": (Plain(), [[call("unlock", door=1), call("unlock", door=2)], "Done."]),
    "background": (
        Plain(),
        [call("inspect"), Answer(text="Meanwhile.", before=note_next_request), "Done."],
    ),
    "of another tool": (Plain(), [call("ask_vault"), "Done."]),
    "of a hook": (Caller(), [call("look"), "Done."]),
    "moved": (Quoting(), [call("vault"), "Done."]),
}


@pytest.mark.parametrize("way", RUNS)
async def test_no_copy_of_a_result_is_kept(tmp_path: Path, way: str) -> None:
    """Neither the journal, outcomes, texts, media nor the log of events has it after the end."""
    agent, script = RUNS[way]
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel(*script) as model:
            runtime = Runtime([agent], Resources(store=store, model=model, models=lambda _: model))
            run = await runtime.start(Chat("go", scope=ANN), agent.name)
            result = await run.result()
            events = [event async for _, event in runtime.events(ANN, run.id)]
            await runtime.close()
        assert WORD in repr(model.requests), "the model reads it"
        assert result.data == {}
        assert WORD not in repr(events)
        assert WORD not in repr(await store.messages(ANN, run.id))
        assert WORD not in repr(await store.load(ANN, run.id))
    assert_nothing_is_kept(tmp_path)


async def test_what_recall_shows_of_it_is_not_kept(tmp_path: Path) -> None:
    """A shortened result is recalled in full; the recalled text is as little kept as the result."""
    async with await SqliteStore.open(tmp_path / "r.db") as store:

        def ask(request: Any) -> Any:
            (message,) = [message for message in request.messages if isinstance(message, ToolMessage)]
            return call("recall", handle=message.handle)

        with ScriptedModel(call("archive"), ask, "Done.") as model:
            resources = Resources(store=store, retention=Retention(max_result_tokens=100))
            tools = ToolRegistry([archive, Recall()])
            await ToolOrchestrator(Chat("go", model=model), AgentConfig(), tools, resources=resources).run()
        assert model.requests[2].messages[-1].content.count(WORD) > 1
    assert_nothing_is_kept(tmp_path)


async def test_an_extract_of_it_is_not_kept(tmp_path: Path) -> None:
    """What stands for a result that has left the view is not cut from it."""

    @tool(name="archive", effect="read", retain="once")
    async def once() -> ToolResult:
        """Open the archive."""
        return result_of(LONG)

    async with await SqliteStore.open(tmp_path / "r.db") as store:
        calls = [call("archive") for _ in range(6)]
        with ScriptedModel(*calls, "Done.") as model:
            limits = Limits(context=200_000)
            resources = Resources(store=store, retention=Retention(), limits=lambda *_: limits)
            tools = ToolRegistry([once, Recall()])
            await ToolOrchestrator(Chat("go", model=model), AgentConfig(), tools, resources=resources).run()
        assert any("[left out" in repr(request.messages) for request in model.requests), "results were reduced"
    assert_nothing_is_kept(tmp_path)


async def test_the_next_turn_of_a_conversation_does_not_keep_it(tmp_path: Path) -> None:
    """Neither the process that has the conversation nor a search nor an export has the result."""
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        model = ScriptedModel(call("vault"), "Done.", "Still done.", "Again.")
        runtime = Runtime([Plain()], Resources(store=store, model=model, models=lambda _: model))
        conversation = await runtime.conversation(ANN, agent="plain")
        first = await conversation.send("open")
        await first.result()
        assert (await (await conversation.send("and now?")).result()).text == "Still done."
        assert (await (await conversation.regenerate(first.id)).result()).text == "Again."
        assert WORD not in repr(await conversation.export())
        assert not await runtime.search(ANN, WORD)
        await runtime.close()
    assert_nothing_is_kept(tmp_path)


@pytest.mark.parametrize("end", ["stop", "erase", "seal"])
async def test_a_run_that_ends_while_it_waits_keeps_nothing(tmp_path: Path, end: str) -> None:
    """The result is erased whoever ends the run, also without its agent."""

    class Careful(Plain):
        name = "careful"

        def authorize_tool_call(self, run: Any, call: Any, arguments: Mapping[str, Any]) -> Any:
            return Ask() if call.name == "unlock" else super().authorize_tool_call(run, call, dict(arguments))

    path = tmp_path / "r.db"
    async with await SqliteStore.open(path) as store:
        model = ScriptedModel([call("vault"), call("unlock", door=1)], "done")
        runtime = Runtime([Careful()], Resources(store=store, model=model, models=lambda _: model))
        run = await runtime.start(Chat("go", scope=ANN), "careful")
        assert (await run.result()).waiting
        events = [event async for _, event in runtime.events(ANN, run.id, until="suspended")]
        assert WORD not in repr(events), "the log of events never has it"
        await runtime.close()
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([Careful()] if end == "stop" else [Plain()], Resources(store=store, model=model))
        if end == "erase":
            await store.erase(ANN, force=True)
        else:
            await runtime.stop(ANN, run.id)
        await runtime.close()
    assert_nothing_is_kept(tmp_path)


class Judge(AgentConfig[None]):
    """Withholds what has the word, once it may judge."""

    name = "judge"

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def handle_special_tools(self, run: Any, call: Any, outcome: Any) -> Any:
        """Judge."""
        self.asked.set()
        await self.may.wait()
        return Special("withheld", withhold=True) if WORD in outcome.content else None


@tool(effect="once")
async def reveal(door: int) -> ToolResult:
    """Reveal a code."""
    return ToolResult(SECRET, data={"code": SECRET}, media=(CHART,), summary=SECRET)


@tool(effect="read")
async def leak() -> str:
    """Fail with the code."""
    raise ToolError(SECRET)


@tool(effect="read")
async def stream(context: ToolContext) -> str:
    """Show the code in pieces."""
    for piece in (f"a {WORD}", f"b {WORD}"):
        context.stream(piece)
    return SECRET


async def read_until(runtime: Runtime, run_id: str, done: Callable[[Any], bool]) -> None:
    """Read the log until *done* is true of an event, which the store has then."""
    async with aclosing(runtime.events(ANN, run_id)) as events:
        async for _, event in events:
            if done(event):
                return


@pytest.mark.parametrize("name", ["reveal", "leak", "stream"])
async def test_a_withheld_result_leaves_the_log(tmp_path: Path, name: str) -> None:
    """A second event replaces the one that readers have seen, and later readers, here too, see only that one."""
    agent = Judge(reveal, leak, stream)
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        bad = call("reveal", door=1) if name == "reveal" else call(name)
        model = ScriptedModel([call("reveal", door=0), bad], "Done.")
        runtime = Runtime([agent], Resources(store=store, model=model, models=lambda _: model))
        run = await runtime.start(Chat("go", scope=ANN), "judge")
        kind = ToolFailed if name == "leak" else ToolDone
        await read_until(runtime, run.id, lambda event: isinstance(event, kind) and event.name == name)
        assert WORD in content_of(tmp_path), "it is stored until it is judged"
        agent.may.set()
        await run.result()
        await runtime.close()
        found = [event async for _, event in runtime.events(ANN, run.id)]
        ends = [event for event in found if isinstance(event, ToolDone | ToolFailed)]
        assert [(event.name, event.replaces) for event in ends] == [("reveal", True), (name, True)]
        texts = [event.content if isinstance(event, ToolDone) else event.error for event in ends]
        assert texts == ["withheld", "withheld"]
    assert_nothing_is_kept(tmp_path)


async def test_a_result_that_the_next_process_withholds_leaves_the_log(tmp_path: Path) -> None:
    """The first process recorded it and ended before the decision."""
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        first, second = Judge(reveal), Judge(reveal)
        model = ScriptedModel([call("reveal", door=1), call("reveal", door=2), call("reveal", door=3)], "Done.")
        resources = Resources(store=store, model=model, models=lambda _: model)
        runtime = Runtime([first], resources)
        run = await runtime.start(Chat("go", scope=ANN), "judge")
        await first.asked.wait()
        await runtime.close()
        assert WORD in content_of(tmp_path)
        second.may.set()
        runtime = Runtime([second], resources)
        assert (await (await runtime.resume(ANN, run.id)).result()).text == "Done."
        await runtime.close()
    assert_nothing_is_kept(tmp_path)


async def test_pieces_of_a_result_that_is_not_kept_leave_the_log_with_it(tmp_path: Path) -> None:
    """Only the end of a stream tells that it must not be kept."""
    go = asyncio.Event()

    @tool(effect="read")
    async def tail() -> AsyncIterator[str | ToolResult]:
        """Show the code in pieces."""
        yield f"a {WORD}"
        await go.wait()
        yield f"b {WORD}"
        yield result_of()

    class Watcher(AgentConfig[None]):
        name, tools = "watcher", (tail,)

    async with await SqliteStore.open(tmp_path / "r.db") as store:
        model = ScriptedModel(call("tail"), "Done.")
        runtime = Runtime([Watcher()], Resources(store=store, model=model))
        run = await runtime.start(Chat("go", scope=ANN), "watcher")
        await read_until(runtime, run.id, lambda event: isinstance(event, ToolStreamed))
        go.set()
        await run.result()
        await runtime.close()
    assert_nothing_is_kept(tmp_path)


@pytest.mark.parametrize("whole", [False, True])
async def test_the_log_keeps_of_a_once_result_what_its_message_keeps(tmp_path: Path, whole: bool) -> None:
    """That is its summary, unless the policy keeps whole results."""

    @tool(effect="read", retain="once")
    async def page() -> AsyncIterator[str | ToolResult]:
        """Read a page."""
        yield WORD
        yield ToolResult(SECRET, summary="a page about doors")

    class Reader(AgentConfig[None]):
        name, tools = "reader", (page,)

        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(keep_whole_results=whole)

    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel(call("page"), "Done.") as model:
            runtime = Runtime([Reader()], Resources(store=store, model=model))
            run = await runtime.start(Chat("go", scope=ANN), "reader")
            await run.result()
            await runtime.close()
            found = [event async for _, event in runtime.events(ANN, run.id)]
            rows = await store._connection.run(
                lambda connection: connection.execute("SELECT body FROM events").fetchall()
            )
        assert SECRET in repr(model.requests)
        kept = [event.content for event in found if isinstance(event, ToolDone)]
        assert kept == [SECRET if whole else "a page about doors"]
    assert (WORD in repr(list(map(tuple, rows)))) == whole


async def test_media_of_the_history_stay(tmp_path: Path) -> None:
    """Erasing a result with its media takes no media from the history, which the run names in shared texts."""
    picture = Media("image/png", "NDcy" * 40)
    history = (UserMessage("look", (picture,)), AssistantMessage((Text("ok"),)))
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel(call("vault"), "done") as model:
            chat = Chat("go", model=model, history=history, scope=ANN)
            result = await ToolOrchestrator(chat, Plain(), resources=Resources(store=store)).run()
        journal = await store.load(ANN, result.run_id)
        assert journal is not None
        assert list(journal.contents.values()) == [picture.data]
        assert_nothing_is_kept(tmp_path)
        await store.erase(ANN)
    assert (picture.data or "") not in content_of(tmp_path)


async def test_passages_that_are_not_kept_do_not_move_into_the_user_s_message(tmp_path: Path) -> None:
    """The main thread moves the passages of `rag`, unless they must not be kept."""

    @tool(effect="read")
    async def rag(query: str) -> ToolResult:
        """Search."""
        return result_of()

    async with await SqliteStore.open(tmp_path / "r.db") as store:
        with ScriptedModel(call("rag", query="x"), "Done.") as model:
            chat, tools = Chat("What is the code?", model=model), ToolRegistry([rag])
            result = await ToolOrchestrator(chat, MainThreadAgent(), tools, resources=Resources(store=store)).run()
        kept = [stored.message for stored in await store.messages(Scope(), result.run_id)]
    assert WORD in repr(model.requests[1].messages)
    assert kept[0] == UserMessage("What is the code?")
    assert_nothing_is_kept(tmp_path)
