"""Bound reasoning: signed together with its prefix, while the model and the fixed parts of requests change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from concertino import Tokens
from concertino.messages import AssistantMessage, Message, Reasoning, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import Retention, TokenEngine

from .kit import COUNTER

BOUND, FREE = "anthropic:claude-opus-5-5", "openai:gpt-5"
FIXED = {"system prompt": "Be brief.", "tools": "look, other"}
FEWER = {"system prompt": "Be brief.", "tools": "look"}


def signatures(messages: list[Message]) -> list[tuple[int, str]]:
    """Return position and signature of each reasoning part shown."""
    return [
        (index, part.signature or "")
        for index, message in enumerate(messages)
        if isinstance(message, AssistantMessage)
        for part in message.parts
        if part.kind == "reasoning"
    ]


def converse(model: Callable[[int], str], fixed: Callable[[int], dict[str, str]]) -> list[list[Message]]:
    """Send 30 requests, check that reasoning follows the prefix that it was signed with, and return the views."""
    clock = iter(range(1_000_000))
    engine = TokenEngine(COUNTER, 4_000, Retention(summaries=False), clock=lambda: next(clock) / 100)
    engine.append(UserMessage("go"))
    signed: dict[str, tuple[list[Message], dict[str, str]]] = {}
    sent: list[list[Message]] = []
    for number in range(30):
        asked, along = model(number), fixed(number)
        engine.plan(along, 100, asked)
        engine.fit()
        shown = list(engine.view())
        engine.observe(Tokens(prompt=engine.tokens))
        sent.append(shown)
        if asked == BOUND:
            for index, signature in signatures(shown):
                assert (shown[:index], along) == signed[signature], f"request {number}: {signature} is bound elsewhere"
        parts: list[Reasoning | ToolCall] = [ToolCall(f"c{number}", "look", "{}")]
        if asked == BOUND:
            parts.insert(0, Reasoning("Hm. " * 10, signature=f"sig{number}", provider="anthropic"))
            signed[f"sig{number}"] = shown, along
        engine.append(AssistantMessage(tuple(parts), "tool_calls"))
        engine.append(ToolMessage(f"c{number}", "look", f"{number} found " * 200))
    return sent


def test_edits_for_another_model_strip_bound_reasoning() -> None:
    sent = converse(lambda number: FREE if 12 <= number < 20 else BOUND, lambda number: FIXED)
    assert signatures(sent[11])
    assert signatures(sent[29])


@pytest.mark.parametrize("at", [1, 7])
def test_a_change_of_tools_strips_bound_reasoning(at: int) -> None:
    sent = converse(lambda number: BOUND, lambda number: FIXED if number < at else FEWER)
    assert signatures(sent[at]) == []
    assert signatures(sent[at + 2]), "new reasoning is sent again"


def test_equal_fixed_parts_in_another_mapping_keep_bound_reasoning() -> None:
    sent = converse(lambda number: BOUND, lambda number: dict(FIXED))
    assert len(signatures(sent[3])) == 3
