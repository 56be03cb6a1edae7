"""The data policy over what only a provider can read, and over media: all of it is content."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from concertino.messages import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from concertino.orchestrator.journal.data_policy import DataPolicy, KeepFor, ToolData, stored_message

CANARY = "c4n4ry"
RAW = f'{{"x":"{CANARY}"}}'
ANSWER = AssistantMessage(
    (
        Text("said", raw=RAW, provider="p"),
        Reasoning("thought", signature=CANARY, provider="p", raw=RAW),
        Opaque("p", "server_tool_use", RAW),
        ToolCall("a", "f", "{}", CANARY, raw=RAW, provider="p"),
    )
)
STRICT: list[dict[str, Any]] = [
    {"text": "redact"},
    {"reasoning": "drop"},
    {"other_tools": ToolData(arguments="redact")},
    {"other_tools": ToolData(results="redact")},
    {"tools": {"another": ToolData(results="hash")}, "hash_key": b"0123456789abcdef"},
]


def everything(message: Message | None) -> str:
    return "" if message is None else repr(dataclasses.asdict(message))


@pytest.mark.parametrize("policy", STRICT)
def test_provider_json_is_kept_only_if_all_content_is_kept(policy: dict[str, Any]) -> None:
    kept = stored_message(DataPolicy(**policy), ANSWER, None, ()).keep
    assert CANARY not in everything(kept)
    assert isinstance(kept, AssistantMessage)
    assert [part.kind for part in kept.parts if part.kind == "opaque"] == []


def test_provider_json_is_kept_as_long_as_the_content_it_may_quote() -> None:
    whole = stored_message(DataPolicy(other_tools=ToolData(results=KeepFor(9))), ANSWER, None, ())
    assert whole.keep is ANSWER
    assert whole.keep_seconds == 9


@pytest.mark.parametrize("how", ["redact", "drop"])
def test_media_are_content(how: Any) -> None:
    shown = (Media("image/png", data=CANARY, name=CANARY),)
    assert CANARY not in everything(stored_message(DataPolicy(text=how), UserMessage("Q", shown), None, ()).keep)
    result = ToolMessage("a", "f", "x", media=shown)
    policy = DataPolicy(other_tools=ToolData(arguments=how, results=how))
    assert CANARY not in everything(stored_message(policy, result, None, ()).keep)
    assert stored_message(DataPolicy(reasoning=how), result, None, ()).keep == result
