"""Images, documents and recordings: in messages and results, in the store, after a crash, and their erasure."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Ask,
    Chat,
    Continue,
    DataPolicy,
    Limits,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    Special,
    SqliteStore,
    ToolData,
    ToolOrchestrator,
    ToolRegistry,
    ToolResult,
    delegate,
    tool,
)
from concertino.agents import EMAIL
from concertino.errors import ConfigurationError, RunError
from concertino.event_form import event_from_json, event_json
from concertino.events import MediaDigest, RunEvent, ToolDone
from concertino.messages import Media, ToolMessage, UserMessage
from concertino.providers import ModelRequest
from concertino.testing import Answer, ScriptedModel, call

PICTURE = Media("image/png", base64.b64encode(b"\x89PNG a cat " * 50).decode(), name="cat.png")
PAPER = Media("application/pdf", base64.b64encode(b"%PDF a paper " * 50).decode(), name="paper.pdf")


@tool(effect="read")
def chart() -> ToolResult:
    """Draw a chart."""
    return ToolResult("a chart", media=(PICTURE,))


@tool(effect="once")
def publish() -> str:
    """Publish the picture."""
    return "published"


class Viewer(AgentConfig):
    """Looks at pictures and draws charts."""

    name = "viewer"
    tools = (chart, publish)


class Careful(Viewer):
    """Asks before it publishes."""

    def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Any:
        """Ask for the approval of one tool."""
        return Ask() if call.name == "publish" else super().authorize_tool_call(run, call, arguments)


class Forgetful(Viewer):
    """Keeps no media."""

    policy = DataPolicy(media="redact")

    def get_data_policy(self) -> DataPolicy:
        """Return the policy of the class."""
        return self.policy


def copies(folder: Path, media: Media) -> int:
    """Return how often the files of *folder* contain the start of a content."""
    assert media.data is not None
    return sum(file.read_bytes().count(media.data.encode()[:60]) for file in folder.iterdir())


def media_of(request: ModelRequest) -> list[str]:
    """Return the names of the media in a request, in order."""
    return [item.name for message in request.messages for item in getattr(message, "media", ())]


async def test_media_reach_the_model_from_messages_and_results() -> None:
    """The user's media are sent with the message, and a tool's media with its result."""
    seen: list[list[str]] = []

    def look(request: ModelRequest) -> Any:
        seen.append(media_of(request))
        return call("chart") if len(seen) == 1 else "A cat."

    run = ToolOrchestrator(Chat("What is this?", media=(PAPER,), model=ScriptedModel(look, look)), Viewer())
    result = await run.run()
    assert seen == [["paper.pdf"], ["paper.pdf", "cat.png"]]
    assert [message.media for message in result.messages if isinstance(message, ToolMessage)] == [(PICTURE,)]


async def test_media_reach_the_caller_of_a_tool_outside_a_turn() -> None:
    """The result of `run.call` has the media, and a run that is resumed reads them again."""
    store, kept, ready, wait = MemoryStore(), list[tuple[Media, ...]](), asyncio.Event(), asyncio.Event()

    class Caller(Viewer):
        async def prepare(self, run: RunContext[Any]) -> list[UserMessage]:
            result = await run.call("chart")
            kept.append(result.media)
            ready.set()
            await wait.wait()
            return [UserMessage(result.content, result.media)]

    model = ScriptedModel("A cat.")
    first, second = (Runtime([Caller()], Resources(store=store, model=model)) for _ in range(2))
    run = await first.start(Chat("Look.", model=model), "viewer")
    await ready.wait()
    await first.close()
    wait.set()
    assert (await (await second.resume(Scope(), run.id)).result()).text == "A cat."
    await second.close()
    assert kept == [(PICTURE,), (PICTURE,)]
    assert media_of(model.requests[0]) == ["cat.png"]


async def test_a_tool_may_return_a_medium_alone() -> None:
    """The model gets the picture, not its data as text."""

    @tool(effect="read")
    async def shot() -> Media:
        """Take a picture."""
        return PICTURE

    model = ScriptedModel(call("shot"), "A cat.")
    await ToolOrchestrator(Chat("Look.", model=model), AgentConfig(), ToolRegistry([shot])).run()
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert (result.content, result.media) == ("", (PICTURE,))


async def test_the_media_of_a_sub_agents_answer_reach_its_parent() -> None:
    """They are the result's, next to the text or alone."""
    paint = delegate(Viewer(), name="paint", description="Paints.", tools=[])
    for text in ("A cat.", ""):
        model = ScriptedModel(call("paint", query="a cat"), Answer(text=text, media=(PICTURE,)), "Here it is.")
        await ToolOrchestrator(Chat("A cat, please.", model=model), AgentConfig(), ToolRegistry([paint])).run()
        result = model.requests[2].messages[-1]
        assert isinstance(result, ToolMessage)
        assert (result.content, result.media) == (text, (PICTURE,))


async def test_a_message_may_consist_of_media_alone() -> None:
    """A picture needs no words."""
    result = await ToolOrchestrator(Chat(media=[PICTURE], model=ScriptedModel("A cat.")), Viewer()).run()
    assert result.messages[0] == UserMessage("", (PICTURE,))


@pytest.mark.parametrize(
    ("media", "words"),
    [
        ((Media("image/png", "no base64!"),), "base64"),
        ((Media("png", PICTURE.data),), "type"),
        ((Media("image/png"),), "one of data"),
        ((Media("image/png", "QQ==", url="https://x"),), "one of data"),
        (("cat.png",), "Media"),
    ],
)
async def test_invalid_media_are_refused_before_the_run(media: Any, words: str) -> None:
    """The error names the medium and the remedy."""
    with pytest.raises(ConfigurationError, match=words):
        await ToolOrchestrator(Chat("x", media=media, model=ScriptedModel("x")), Viewer()).run()


async def test_media_over_the_limit() -> None:
    """A message is refused; a result keeps its text, and the model reads what is missing."""
    resources = Resources(limits=lambda *_: Limits(media_bytes=100))
    with pytest.raises(ConfigurationError, match="media_bytes=100"):
        await ToolOrchestrator(
            Chat("x", media=(PICTURE,), model=ScriptedModel("x")), Viewer(), resources=resources
        ).run()
    result = await ToolOrchestrator(
        Chat("x", model=ScriptedModel(call("chart"), "ok")), Viewer(), resources=resources
    ).run()
    (message,) = [message for message in result.messages if isinstance(message, ToolMessage)]
    assert message.media == ()
    assert message.content.startswith("a chart\n[the media of this result were left out")


@pytest.mark.parametrize("where", ["prepare", "handle_special_tools", "after_step", "ask"])
@pytest.mark.parametrize(
    ("media", "words"),
    [
        (Media("image/png", "no base64!"), "its data is not base64 text"),
        (Media("image/png"), "give it one of data"),
        (PICTURE, "media_bytes=100"),
    ],
    ids=["not base64", "empty", "too large"],
)
async def test_media_of_a_hook_are_checked_like_those_of_a_tool(where: str, media: Media, words: str) -> None:
    """The error names the hook, and nothing invalid is sent or kept."""
    added = (UserMessage("Look.", (media,)),)

    class Adds(Viewer):
        async def prepare(self, run: RunContext[Any]) -> Any:
            if where == "ask":
                await run.ask(added)
            return added if where == "prepare" else ()

        def handle_special_tools(self, run: Any, call: Any, outcome: Any) -> Any:
            return Special(messages=(*run.messages[:-1], *added)) if where == "handle_special_tools" else None

        def after_step(self, run: Any, outcome: Any) -> Any:
            return Continue(added) if where == "after_step" else outcome

    resources = Resources(limits=lambda *_: Limits(media_bytes=100))
    earlier = [UserMessage("Before.", (PICTURE,))]  # was sent when it was new
    model = ScriptedModel(*[call("publish")] * 2, "ok")
    hook = "prepare" if where == "ask" else where
    with pytest.raises(RunError, match=f"hook {hook} of agent 'viewer' .*{words}") as failed:
        await ToolOrchestrator(Chat("x", history=earlier, model=model), Adds(), resources=resources).run()
    assert media not in [item for message in failed.value.result.messages for item in getattr(message, "media", ())]


async def test_a_hook_may_repeat_messages_of_the_conversation() -> None:
    """Media in messages that the run has already are not checked again."""

    class Repeats(Viewer):
        def handle_special_tools(self, run: Any, call: Any, outcome: Any) -> Any:
            return Special(messages=tuple(run.messages[:-1]))

    resources = Resources(limits=lambda *_: Limits(media_bytes=100))
    chat = Chat("x", history=[UserMessage("Before.", (PICTURE,))], model=ScriptedModel(call("publish"), "ok"))
    result = await ToolOrchestrator(chat, Repeats(), resources=resources).run()
    assert result.status == "completed"


async def test_media_survive_an_approval_in_another_process(tmp_path: Path) -> None:
    """The resumed request is the same, byte for byte; each content is stored once."""
    path = tmp_path / "runs.db"
    requests: list[ModelRequest] = []

    def last(request: ModelRequest) -> str:
        requests.append(request)
        return "done"

    async with await SqliteStore.open(path) as store:
        first = ScriptedModel([call("chart"), call("publish")])
        chat = Chat("Publish this.", media=(PAPER, PICTURE), history=[UserMessage("Before.", (PAPER,))], model=first)
        runtime = Runtime([Careful()], Resources(store=store, model=first))
        run = await runtime.start(chat, "viewer")
        (wait,) = (await run.result()).waiting
        await runtime.close()
    async with await SqliteStore.open(path) as store:
        model = ScriptedModel(last)
        runtime = Runtime([Careful()], Resources(store=store, model=model, models=lambda _: model))
        await runtime.approve(chat.scope, wait.key)
        result = await (await runtime.resume(chat.scope, run.id)).result()
        assert result.status == "completed"
        assert media_of(requests[0]) == ["paper.pdf", "paper.pdf", "cat.png", "cat.png"]
        replayed = list(await runtime.replay(chat.scope, run.id))
        assert list(replayed[-1][2].messages) == list(requests[0].messages)
        again = await runtime.create_fork(chat.scope, run.id, 2)
        await runtime.close()
    assert again
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM media").fetchall() == [(2,)]
        assert PICTURE.data is not None
        for table in ("messages", "texts", "journal", "outcomes"):
            rows = database.execute(f"SELECT * FROM {table}").fetchall()
            assert PICTURE.data not in str(rows), table


@pytest.mark.parametrize("how", ["redact", "drop"])
async def test_media_that_the_policy_forbids_leave_no_copy(tmp_path: Path, how: Any) -> None:
    """The text stays, and with `redact` a note; the file holds no byte of the content once the run has ended."""
    path = tmp_path / "runs.db"
    model = ScriptedModel(call("chart"), "A cat.")
    agent = Forgetful()
    agent.policy = DataPolicy(media=how)
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([agent], Resources(store=store, model=model))
        scope = Scope("acme", "ann")
        run = await runtime.start(Chat("What is this?", media=(PAPER,), scope=scope), "viewer")
        await run.result()
        kept = [stored.message for stored in await store.messages(scope, run.id)]
        await runtime.close()
    note = "\n[paper.pdf was not kept]" if how == "redact" else ""
    assert kept[0] == UserMessage("What is this?" + note)
    assert copies(tmp_path, PAPER) == copies(tmp_path, PICTURE) == 0


async def test_media_are_erased_with_the_last_run_that_has_them(tmp_path: Path) -> None:
    """Erasing one user's runs keeps another user's copy; erasing both leaves no byte."""
    path = tmp_path / "runs.db"
    ann, bob = Scope("acme", "ann"), Scope("acme", "bob")
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([Viewer()], Resources(store=store, model=ScriptedModel("1", "2", "3")))
        runs = [await runtime.start(Chat("Look.", media=(PAPER,), scope=scope), "viewer") for scope in (ann, ann, bob)]
        for run in runs:
            await run.result()
        await runtime.close()
        await store.erase(ann)
        (kept, _) = await store.messages(bob, runs[2].id)
        assert kept.message == UserMessage("Look.", (PAPER,))
        await store.erase(bob)
    assert copies(tmp_path, PAPER) == 0


@pytest.mark.parametrize(("patterns", "name"), [((), "ann@example.com.png"), ((EMAIL,), "[email]")])
async def test_the_event_of_a_call_has_digests_of_its_media(patterns: Any, name: str) -> None:
    @tool(effect="read")
    def draw() -> ToolResult:
        """Draw."""
        return ToolResult("a cat", media=(replace(PICTURE, name="ann@example.com.png"),))

    class Careful(Viewer):
        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(patterns=patterns)

    with ScriptedModel(call("draw"), "a cat") as model:
        run = ToolOrchestrator(Chat("draw", model=model), Careful(), ToolRegistry([draw]))
        (done,) = [event async for event in run.stream() if isinstance(event, ToolDone)]
    assert done.media == (MediaDigest("image/png", name, PICTURE.digest),)
    form = json.dumps(event_json(done))
    assert event_from_json(json.loads(form)) == done
    assert str(PICTURE.data) not in form


async def test_observers_see_no_media_that_the_policy_forbids() -> None:
    class Careful(Viewer):
        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(other_tools=ToolData(results="redact"))

    seen: list[RunEvent] = []
    with ScriptedModel(call("chart"), "a cat") as model:
        run = ToolOrchestrator(Chat("draw", model=model), Careful(), ToolRegistry([chart]), observers=[seen.append])
        await run.run()
    (done,) = [event for event in seen if isinstance(event, ToolDone)]
    assert done.media == ()
