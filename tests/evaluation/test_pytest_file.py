"""`pytest_file`: the written test repeats any run."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    AssistantMessage,
    Chat,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    SystemMessage,
    Text,
    ToolResult,
    UserMessage,
    tool,
)
from concertino.errors import BadRequestError, RunStateError, ToolError
from concertino.evaluation import pytest_file
from concertino.messages import Media
from concertino.testing import Answer, ScriptedModel, call

LONG = "A line that is longer than a line of source: " + "words and more words " * 20 + '\n\nIt\'s "quoted".\u202e\n'


@tool
async def look(name: str) -> Any:
    """Look up."""
    assert not Clerk.ran, "the tool ran"
    if name == "bad":
        raise ToolError("declined")
    if name == "last":
        return ToolResult("no more", ends_run=True)
    return ToolResult(LONG, data={"name": name}, summary="a long text") if name == "long" else f"{name} is 7"


class Clerk(AgentConfig):
    """Asks a question first, and uses the data of its tool."""

    name = "clerk"
    prompt = "You help."
    tools = (look,)
    ran = False

    async def prepare(self, run: RunContext[None]) -> list[SystemMessage]:
        return [SystemMessage(await run.ask("What is the mood?"))]

    def conclude(self, run: RunContext[None], text: str) -> str:
        return f"{text} ({run.data.get('look')})"


def make_runtime(store: MemoryStore) -> Runtime:
    """Return the Runtime of the product."""
    return Runtime([Clerk()], Resources(store=store))


CHATS = {
    "plain": Chat("Hello"),
    "history": Chat(
        LONG,
        history=[UserMessage("Before?"), AssistantMessage((Text("Before."),)), SystemMessage("Be brief.")],
        scope=Scope("acme", "ann"),
        memories=("likes tea",),
        personalization="Short answers.",
        send_tools=True,
    ),
}
SCRIPTS: dict[str, list[Any]] = {
    "text": ["gloomy", LONG],
    "calls": [
        "gloomy",
        [call("look", name="a"), call("look", name="bad")],
        Answer(
            text="I look.", reasoning="Hm.", calls=(call("look", "{broken"), call("look"), call("look", name="long"))
        ),
        call("nothing", '{"class": 1}'),
        "The end.",
    ],
    "ended": ["gloomy", [call("look", name="a"), call("look", name="last")]],
    "failed": ["gloomy", call("look", name="a"), BadRequestError("it's too much")],
}


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_written_test_repeats_the_run(
    chat: str, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MemoryStore() as store:
        runtime = make_runtime(store)
        given = dataclasses.replace(CHATS[chat], model=ScriptedModel(*SCRIPTS[script]))
        live = await runtime.start(given, "clerk")
        await live.result()
        journal = await store.load(OPERATOR, live.id)
        await runtime.close()
    assert journal is not None
    source = pytest_file(journal, "product:make_runtime")
    assert max(len(line) for line in source.splitlines()) < 140
    assert "\u202e" not in source
    monkeypatch.setitem(sys.modules, "product", SimpleNamespace(make_runtime=make_runtime))  # type: ignore[arg-type]
    monkeypatch.setattr(Clerk, "ran", True)
    names: dict[str, Any] = {}
    exec(compile(source, "test_product.py", "exec"), names)
    (test,) = [value for name, value in names.items() if name.startswith("test_clerk_")]
    await _in_thread(test)
    monkeypatch.setattr(Clerk, "conclude", lambda self, run, text: "Something else.")
    if script != "failed":
        with pytest.raises(AssertionError):
            await _in_thread(test)


async def _in_thread(test: Any) -> None:
    """Call a test, which starts an event loop of its own."""
    await asyncio.to_thread(test)


async def test_a_run_with_media_is_refused() -> None:
    async with MemoryStore() as store:
        runtime = make_runtime(store)
        picture = Media("image/png", data="iVBORw0KGgo=")
        live = await runtime.start(Chat("Look.", media=[picture], model=ScriptedModel("gloomy", "Nice.")), "clerk")
        await live.result()
        journal = await store.load(OPERATOR, live.id)
        await runtime.close()
    assert journal is not None
    with pytest.raises(RunStateError, match="it has media"):
        pytest_file(journal, "product:make_runtime")
