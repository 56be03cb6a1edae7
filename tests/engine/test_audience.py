"""Each text says for whom it is; hooks and tools send events of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    RunContext,
    RunError,
    ToolContext,
    ToolOrchestrator,
    ToolRegistry,
    delegate,
    tool,
)
from concertino.errors import ConfigurationError, HookError
from concertino.events import (
    Audience,
    CustomEvent,
    QuestionAnswered,
    RunEnded,
    RunEvent,
    RunProgress,
    TextDelta,
    ToolDone,
    TurnCompleted,
)
from concertino.messages import Message, SystemMessage
from concertino.testing import ScriptedModel, call


async def run(
    agent: AgentConfig[Any], *script: Any, registry: ToolRegistry | None = None, **more: Any
) -> list[RunEvent]:
    """Run an agent and return its events."""
    orchestrator = ToolOrchestrator(Chat(model=ScriptedModel(*script, **more), message="go"), agent, registry)
    return [event async for event in orchestrator.stream()]


def texts(events: list[RunEvent], audience: Audience) -> str:
    """Return the pieces of text for *audience*."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.audience == audience)


async def test_a_side_question_is_no_part_of_the_answer() -> None:
    """Capabilities, finding 2: `[{"tool":"stats"}]Final answer.` was shown."""

    class Picks(AgentConfig):
        async def prepare(self, run: RunContext[None]) -> list[Message]:
            return [SystemMessage(await run.ask("Which tools? JSON", system="select", audience="draft"))]

    events = await run(Picks(), '[{"tool":"stats"}]', "Final answer.")
    assert texts(events, "answer") == "Final answer."
    assert texts(events, "draft") == '[{"tool":"stats"}]'
    (asked,) = [event for event in events if isinstance(event, QuestionAnswered)]
    assert (asked.text, asked.audience) == ('[{"tool":"stats"}]', "draft")
    attempts = {event.attempt for event in events if isinstance(event, TextDelta) and event.audience == "draft"}
    assert attempts == {asked.attempt}
    (turn,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert (turn.audience, turn.attempt != asked.attempt) == ("answer", True)


@pytest.mark.parametrize(("own", "expected"), [("answer", "draft"), ("draft", "draft"), ("internal", "internal")])
async def test_a_sub_agents_text_is_never_the_answer(own: Audience, expected: Audience) -> None:
    class Clerk(AgentConfig):
        name, prompt = "clerk", "You are a clerk"
        audience = own

    registry = ToolRegistry([delegate(Clerk(), description="Knows.")])
    script = [call("clerk", query="x"), "answer"]
    events = await run(AgentConfig(), *script, registry=registry, scripts={"You are a clerk": ["from below"]})
    assert texts(events, "answer") == "answer"
    assert texts(events, expected) == "from below"


async def test_an_agent_says_for_whom_its_text_is() -> None:
    class Worker(AgentConfig):
        audience = "internal"

    events = await run(Worker(), '{"thinking": "..."}')
    assert texts(events, "answer") == ""
    assert [event.audience for event in events if isinstance(event, TurnCompleted)] == ["internal"]

    class Wrong(AgentConfig):
        audience = "everyone"  # type: ignore[assignment]

    with pytest.raises(ConfigurationError, match="use answer, draft, internal"):
        await run(Wrong(), "x")


async def test_hooks_and_tools_send_events_of_their_own() -> None:
    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        context.emit("row", {"id": 1, "tags": ["a"]})
        await asyncio.to_thread(context.emit, "row", None)
        return "seen"

    class Desk(AgentConfig):
        tools = (look,)

        def prepare(self, run: RunContext[None]) -> list[Message]:
            run.emit("phase", "first")
            run.progress.begin("Reading").send("page 1")
            return []

    events = await run(Desk(), call("look"), "end")
    own = [event for event in events if isinstance(event, CustomEvent)]
    assert [(event.name, event.data, event.tool) for event in own] == [
        ("phase", "first", ""),
        ("row", {"id": 1, "tags": ["a"]}, "look"),
        ("row", None, "look"),
    ]
    done = next(event for event in events if isinstance(event, ToolDone))
    assert own[1].call_id == done.call_id
    steps = [event.step for event in events if isinstance(event, RunProgress)]
    assert [(step["parts"], step["ended"]) for step in steps] == [([], False), (["page 1"], False), (["page 1"], True)]
    assert isinstance(events[-1], RunEnded), "an open step ends before its run"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("rows", object(), "not JSON"),
        ("rows", float("nan"), "not JSON"),
        ("rows", "x" * 70_000, "send a reference"),
        ("", 1, "1 to 100 characters"),
    ],
)
async def test_data_that_are_no_json_are_refused(name: str, data: Any, message: str) -> None:
    class Desk(AgentConfig):
        def prepare(self, run: RunContext[None]) -> list[Message]:
            run.emit(name, data)
            return []

    with pytest.raises(RunError, match=message) as failed:
        await ToolOrchestrator(Chat(model=ScriptedModel(), message="go"), Desk()).run()
    assert isinstance(failed.value.__cause__, HookError)
