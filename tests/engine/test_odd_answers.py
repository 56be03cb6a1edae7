"""Answers that are no whole turn: paused, cut off at the limit, or broken in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Limits, RunContext, Tool, tool
from concertino.errors import BrokenStreamError
from concertino.messages import AssistantMessage, Opaque, Reasoning, Text, ToolCall, ToolMessage
from concertino.testing import Answer, ScriptedModel, call

from .conftest import Play


async def test_a_paused_turn_goes_on_when_the_conversation_is_sent_again_as_it_is(play: Play, add: Tool) -> None:
    with ScriptedModel(Answer(text="Searching.", stop_reason="pause"), "Found.") as model:
        seen = await play(model, tools=[add])
    assert (seen.result.status, seen.result.text, seen.result.steps) == ("completed", "Found.", 2)
    assert list(model.requests[1].messages)[:-1] == list(model.requests[0].messages)
    assert model.requests[1].messages[-1].stop_reason == "pause"


async def test_a_model_that_only_pauses_meets_the_limit(play: Play, add: Tool) -> None:
    with ScriptedModel(*[Answer(text="Searching.", stop_reason="pause")] * 4) as model:
        seen = await play(model, tools=[add], tool_call_limit=4)
    assert (seen.result.status, seen.result.steps) == ("completed", 4)


async def test_a_call_that_the_limit_cut_off_does_not_run(play: Play) -> None:
    ran: list[str] = []

    @tool
    def wipe(folder: str = "everything") -> str:
        """Delete a folder."""
        ran.append(folder)
        return "deleted"

    for written in ("", '{"folder": "tm', '"tmp'):
        begun = Answer(calls=(call("wipe", '{"folder": "a"}'), call("wipe", written)), stop_reason="length")
        with ScriptedModel(begun, "I see.") as model:
            seen = await play(model, tools=[wipe])
        assert ran == ["a"], "the call before it was complete"
        results = [message for message in seen.result.messages if isinstance(message, ToolMessage)]
        assert [result.is_error for result in results] == [False, True]
        assert "token limit" in results[1].content
        ran.clear()


async def test_a_call_that_was_complete_at_the_limit_runs(play: Play, add: Tool) -> None:
    with ScriptedModel(Answer(calls=(call("add", a=1, b=2),), stop_reason="length"), "3") as model:
        await play(model, tools=[add])
    assert model.requests[1].messages[-1].content == "3"


async def test_what_came_before_a_stream_broke_is_kept_whole(play: Play) -> None:
    error = BrokenStreamError("reset")
    error.partial = AssistantMessage(
        (Reasoning("Hm.", signature="s", provider="p"), Opaque("p", "search", "{}"), Text("Half")), "broken", "m"
    )
    with ScriptedModel(Answer(text="Half", calls=(call("add", a=1),), error=error)) as model:
        seen = await play(model)
    assert seen.result.status == "failed"
    assert seen.result.messages[-1] == error.partial
    (record,) = seen.result.usage
    assert (record.source, record.tokens.completion > 3) == ("unknown", True)


async def test_a_call_in_an_answer_that_broke_has_a_result(play: Play) -> None:
    error = BrokenStreamError("reset")
    error.partial = AssistantMessage((ToolCall("c1", "add", "{}"),), "broken", "m")
    with ScriptedModel(Answer(calls=(call("add", a=1),), error=error)) as model:
        seen = await play(model)
    last = seen.result.messages[-1]
    assert isinstance(last, ToolMessage)
    assert (last.call_id, last.is_error) == ("c1", True)


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


class Parses(AgentConfig):
    """Parses the arguments itself."""

    tools = (echo,)

    def preprocess_tool_arguments(self, run: RunContext, call: ToolCall) -> Any:
        return super().preprocess_tool_arguments(run, call)


@pytest.mark.parametrize("stop_reason", ["length", "tool_calls"])
async def test_arguments_nested_too_deeply_to_parse_are_an_error_of_the_call(stop_reason: Any, play: Play) -> None:
    deep = Answer(calls=(call("echo", "[" * 100_000),), stop_reason=stop_reason)
    with ScriptedModel(deep, "I see.") as model:
        seen = await play(model, Parses(), limits=lambda *_: Limits(context=1_000_000, output=10_000))
    assert (seen.result.status, seen.result.text) == ("completed", "I see.")
    (result,) = [message for message in seen.result.messages if isinstance(message, ToolMessage)]
    assert result.is_error


async def test_a_lone_surrogate_in_arguments_is_text(play: Play) -> None:
    with ScriptedModel(call("echo", '{"text": "\ud83d"}'), call("echo", '{"text": "\\ud83d"}'), "done") as model:
        seen = await play(model, Parses())
    results = [message for message in seen.result.messages if isinstance(message, ToolMessage)]
    assert [(result.content, result.is_error) for result in results] == [("\ud83d", False)] * 2
