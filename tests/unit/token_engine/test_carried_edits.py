"""Stored edits of an earlier run: applied to the conversation that they were made for, and to no other."""

from __future__ import annotations

import pytest

from concertino.context_state import ContextState
from concertino.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from concertino.token_engine import Edit, EstimatingCounter, Reduce, Strip, Summarize, TokenEngine
from concertino.token_engine.edits import encode_edit, fingerprint

GREETING: list[Message] = [
    ToolMessage("c0", "look", "The first message. " * 30),
    AssistantMessage((Text("Hello. " * 30),)),
    UserMessage("Hi."),
]


@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        (Reduce((0,), ("short",), fingerprint(GREETING[:1])), "short"),
        (Summarize(0, 2, (), "They met.", "handle", fingerprint(GREETING[:2])), "They met."),
    ],
)
def test_an_edit_of_the_first_message_is_carried_over(edit: Edit, shown: str) -> None:
    engine = TokenEngine(EstimatingCounter(), 60_000)
    assert engine.start(GREETING, ContextState(edits=[encode_edit(edit)]))
    first = engine.view()[0]
    assert (first.content if isinstance(first, ToolMessage) else first.text) == shown  # type: ignore[union-attr]


def test_an_edit_without_effect_is_carried_over() -> None:
    engine = TokenEngine(EstimatingCounter(), 60_000)
    assert engine.start(GREETING, ContextState(edits=[encode_edit(Strip(0))]))
    assert list(engine.view()) == GREETING


@pytest.mark.parametrize(
    "edit",
    [
        Reduce((1,), ("short",), fingerprint(GREETING[:1])),
        Reduce((-3,), ("short",), fingerprint(GREETING[:1])),
        Reduce((3,), ("short",), fingerprint(GREETING[:1])),
        Summarize(0, 2, (), "They met.", "handle", fingerprint(GREETING[1:2])),
        Summarize(-1, 2, (), "They met.", "handle", fingerprint(GREETING[2:2])),
        Summarize(2, 2, (), "They met.", "handle", fingerprint([])),
        Summarize(1, 4, (), "They met.", "handle", fingerprint(GREETING[1:])),
        Strip(4),
        Strip(-1),
    ],
)
def test_an_edit_of_other_messages_is_refused(edit: Edit) -> None:
    engine = TokenEngine(EstimatingCounter(), 60_000)
    assert not engine.start(GREETING, ContextState(edits=[encode_edit(edit)]))
    assert list(engine.view()) == GREETING
