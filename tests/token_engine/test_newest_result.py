"""Results of tools with `retain="newest"`: the last one that is no error stays in view."""

from __future__ import annotations

from concertino.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import Retention, TokenEngine

from .kit import COUNTER, FIXED

MODEL = "openai:gpt-5"


def result(call_id: str, text: str, *, is_error: bool = False) -> list[AssistantMessage | ToolMessage]:
    call = ToolCall(call_id, "tasks", "{}")
    return [AssistantMessage((call,)), ToolMessage(call_id, "tasks", text, is_error=is_error, retain="newest")]


def test_an_error_does_not_replace_the_newest_result() -> None:
    engine = TokenEngine(COUNTER, 20_000, Retention())
    conversation = [
        UserMessage("go"),
        *result("c1", "1 of 3 done"),
        *result("c2", "2 of 3 done"),
        *result("c3", "the list is locked", is_error=True),
        AssistantMessage((ToolCall("c4", "work", "{}"),)),
        ToolMessage("c4", "work", "abc" * 14_500),
    ]
    for message in conversation:
        engine.append(message)
    job = engine.plan(FIXED, 4_000, MODEL).job
    assert job is not None
    assert engine.complete(job, "Some work is done.")
    engine.plan(FIXED, 4_000, MODEL)
    engine.fit()
    shown = [message.content for message in engine.view() if isinstance(message, ToolMessage)]
    assert shown == ["2 of 3 done"]
