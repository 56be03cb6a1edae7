"""Redaction by pattern: an e-mail address that enters a run reaches no model, no store, no event and no log."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    AssistantMessage,
    Attachment,
    Chat,
    Continue,
    DataPolicy,
    MemoryStore,
    Part,
    Resources,
    RunContext,
    RunEvent,
    Runtime,
    Scope,
    SqliteStore,
    SystemMessage,
    ToolCall,
    ToolContext,
    ToolOrchestrator,
    ToolResult,
    UserMessage,
    delegate,
    tool,
)
from concertino.agents import EMAIL
from concertino.errors import ConfigurationError
from concertino.events import TextDelta, ToolCallDelta, ToolStreamed
from concertino.messages import Text
from concertino.storage import Feedback
from concertino.testing import Answer, ScriptedModel, call

ADDRESS = "ann.canary@example.org"


class Emails(Part):
    """E-mail addresses never enter a run."""

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(patterns=(EMAIL,))


@tool(effect="read")
async def look_up(name: str, context: ToolContext) -> Any:
    """Look up a person."""
    with context.progress.begin(f"reading {ADDRESS}"):
        context.stream(ADDRESS[:7])
        context.stream(ADDRESS[7:] + " ok")
    return ToolResult(f"{name}: {ADDRESS}", data={"who": [{"mail": ADDRESS}], ADDRESS: 1}, summary=ADDRESS)


@tool(effect="read")
async def fail() -> str:
    """Fail."""
    raise ValueError(ADDRESS)


class Below(AgentConfig[None]):
    name = "below"
    tools = (look_up,)


class Desk(AgentConfig[dict[str, str]]):
    name = "desk"
    parts = (Emails(),)
    tools = (look_up, fail, delegate(Below(), description="Ask."))

    def initialize_agent_state(self, run: RunContext[dict[str, str]]) -> dict[str, str]:
        return {"mail": ADDRESS}

    async def prepare(self, run: RunContext[dict[str, str]]) -> Any:
        assert ADDRESS not in repr(run.chat)
        assert ADDRESS not in await run.ask(f"who is {ADDRESS}?", system=ADDRESS)
        return [SystemMessage(f"the user's address is {ADDRESS}")]

    def build_request(self, run: RunContext[dict[str, str]], request: Any) -> Any:
        return dataclasses.replace(request, messages=[*request.messages, UserMessage(ADDRESS)])

    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Ask(note=f"for {ADDRESS}") if call.name == "fail" else Allow()

    def on_no_tool_calls(self, run: RunContext[dict[str, str]]) -> Any:
        first = not any(isinstance(m, SystemMessage) and m.text.startswith("again") for m in run.messages)
        return Continue((SystemMessage(f"again {ADDRESS}"),)) if first else super().on_no_tool_calls(run)

    def conclude(self, run: RunContext[dict[str, str]], text: str) -> str:
        return f"{text} {ADDRESS}"


def model() -> ScriptedModel:
    pieces = Answer(text=f"I write to {ADDRESS} now. ", reasoning=f"{ADDRESS}?", calls=(call("look_up", name=ADDRESS),))
    return ScriptedModel(
        f"side {ADDRESS}",
        pieces,
        (call("below", query=f"Who is {ADDRESS}?"), call("fail")),
        call("look_up", name=ADDRESS),  # the sub-agent
        f"found {ADDRESS}",
        f"draft {ADDRESS}",
        f"final {ADDRESS}",
    )


def chat(**more: Any) -> Chat:
    return Chat(
        f"My address is {ADDRESS}.",
        history=[UserMessage(f"I am {ADDRESS}"), AssistantMessage((Text(f"Hello {ADDRESS}"),))],
        summary=f"about {ADDRESS}",
        memories=[f"reads {ADDRESS}"],
        personalization=f"call me {ADDRESS}",
        project_rules=f"cc {ADDRESS}",
        attachments=[Attachment(f"{ADDRESS}.txt", f"by {ADDRESS}")],
        conversation_id="c1",
        **more,
    )


async def test_no_sink_gets_an_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, seen, observed = tmp_path / "runs.db", list[RunEvent](), list[RunEvent]()
    scripted = model()
    async with await SqliteStore.open(path) as store:
        runtime = Runtime([Desk()], Resources(model=scripted, store=store), observers=[observed.append])
        run = await runtime.start(chat(), "desk")
        result = await run.result()
        assert result.status == "suspended"
        await runtime.steer(OPERATOR, run.id, f"also {ADDRESS}")
        seen += [event async for _, event in run.events()]
        await runtime.deny(OPERATOR, result.waiting[0].key, f"ask {ADDRESS}")
        run = await runtime.resume(OPERATOR, run.id)
        result = await run.result()
        seen += [event async for _, event in run.events()]
        await runtime.close()
        assert result.status == "completed", result.error
        assert result.text == "final [email] [email]"
        stored = await store.messages(OPERATOR, run.id)
    for where in (seen, observed, result, scripted.requests, stored, caplog.text):
        assert ADDRESS not in repr(where)
        assert "canary" not in repr(where)
    assert files_with(tmp_path, b"canary") == []
    assert "My address is [email]." in repr(scripted.requests)
    streamed = [event.content for event in observed if isinstance(event, ToolStreamed)]
    assert "".join(streamed[:2]) == "[email] ok"


class Private(AgentConfig[None]):
    name = "private"
    parts = (Emails(),)


async def test_what_a_conversation_stores_without_a_run_is_redacted(tmp_path: Path) -> None:
    going_on, ann = asyncio.Event(), Scope("acme", "ann")
    scripted = ScriptedModel(Answer(text="one", midway=going_on.wait), "two", "three")
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        resources = Resources(model=scripted, store=store)
        async with Runtime([Private()], resources) as runtime:
            conversation = await runtime.conversation(ann, "c", agent="private")
            await conversation.set_title(f"about {ADDRESS}")
            first = await conversation.send("hello")
            queued = await conversation.send(Chat(f"mail {ADDRESS}", personalization=f"call me {ADDRESS}"))
            await conversation.send(f"steer {ADDRESS}", when_busy="steer")
            await conversation.rate(first.id, "up", f"by {ADDRESS}")
            # A process that only serves the web has no agents: the policy is that of the run.
            web = await Runtime([], resources).conversation(ann, "c")
            await web.rate(first.id, "down", f"not by {ADDRESS}")
            await web.send(f"from the web {ADDRESS}")
            assert files_with(tmp_path, b"canary") == []
            assert (await conversation.read()).title == "about [email]"
            assert (await first.read()).feedback == Feedback(rating="down", text="not by [email]")
            going_on.set()
            assert (await queued.result()).status == "completed"
            assert "mail [email]" in repr(scripted.requests) and "steer [email]" in repr(scripted.requests)
    assert files_with(tmp_path, b"canary") == []


def files_with(folder: Path, text: bytes) -> list[str]:
    return [file.name for file in sorted(folder.iterdir()) if text in file.read_bytes()]


async def test_a_process_without_agent_and_policy_stores_no_text() -> None:
    store, ann = MemoryStore(), Scope("acme", "ann")
    await Runtime([Private()], Resources(store=store)).conversation(ann, "c", agent="private")
    web = await Runtime([], Resources(store=store)).conversation(ann, "c")
    with pytest.raises(ConfigurationError, match="this runtime has no agent 'private'"):
        await web.set_title(f"about {ADDRESS}")


async def test_pieces_of_an_answer_are_redacted() -> None:
    class Plain(AgentConfig[None]):
        parts = (Emails(),)

    run = ToolOrchestrator(Chat("x", model=ScriptedModel(f"I write to {ADDRESS} now.")), Plain())
    pieces = [event.text async for event in run.stream() if isinstance(event, TextDelta)]
    assert pieces == ["I ", "write ", "to ", "[email] ", "now."]


async def test_a_failed_run_keeps_no_address() -> None:
    class Fails(AgentConfig[None]):
        parts = (Emails(),)

        def conclude(self, run: RunContext[None], text: str) -> str:
            raise ValueError(ADDRESS)

    store = MemoryStore()
    run = ToolOrchestrator(Chat("x", model=ScriptedModel("y")), Fails(), resources=Resources(store=store))
    events = [event async for event in run.stream()]
    assert run.result is not None
    assert run.result.status == "failed"
    assert "[email]" in (run.result.error or "")
    assert ADDRESS not in repr(events)
    stored = await store.run(OPERATOR, run.run_id)
    assert stored is not None
    assert ADDRESS not in repr(stored)


async def test_a_resumed_run_sends_the_same_bytes() -> None:
    store, first, second = MemoryStore(), model(), model()
    one = Runtime([Desk()], Resources(model=first, store=store))
    run = await one.start(chat(), "desk")
    waiting = (await run.result()).waiting
    second.requests.clear()
    await one.approve(OPERATOR, waiting[0].key)
    replayed = [request for _, _, request in await one.replay(OPERATOR, run.id)]
    sent = [request for request in first.requests if request.messages and len(request.messages) > 3]
    assert [list(each.messages) for each in replayed] == [list(each.messages) for each in sent]
    await one.close()


async def test_a_process_without_the_agent_redacts_a_steering_message() -> None:
    store = MemoryStore()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        return "done"

    class Waits(AgentConfig[None]):
        name, parts, tools = "waits", (Emails(),), (wait,)

        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Ask:
            return Ask()

    runtime = Runtime([Waits()], Resources(model=ScriptedModel(call("wait"), "ok"), store=store))
    run = await runtime.start(Chat("x"), "waits")
    await run.result()
    other = Runtime([], Resources(model=ScriptedModel(), store=store))
    await other.steer(OPERATOR, run.id, f"mail {ADDRESS}")
    assert [command.text for command in await store.commands(OPERATOR, run.id)] == ["mail [email]"]
    await other.close()
    await runtime.close()


def test_arguments_are_redacted_however_they_are_escaped() -> None:
    escaped = json.dumps({"to": ADDRESS}).replace("@", "\\u0040")

    @tool(effect="read")
    async def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    class Sends(AgentConfig[None]):
        parts, tools = (Emails(),), (send,)

    run = ToolOrchestrator(Chat("x", model=ScriptedModel(call("send", escaped), "ok")), Sends())

    async def read() -> list[RunEvent]:
        return [event async for event in run.stream() if not isinstance(event, ToolCallDelta)]

    events = asyncio.run(read())
    assert "canary" not in repr(events)
    assert "sent to [email]" in repr(events)
