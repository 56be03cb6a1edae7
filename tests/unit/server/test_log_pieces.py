"""The pieces of a log add up to its answers, whichever deltas a reader gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino import AssistantMessage, Text, ToolCall
from concertino.events import (
    AttemptFailed,
    CallWaiting,
    QuestionAnswered,
    ReasoningDelta,
    RunEnded,
    RunEvent,
    RunResult,
    TextDelta,
    ToolCallDelta,
    ToolDone,
    ToolFailed,
    ToolsSelected,
    ToolStarted,
    TurnCompleted,
    Voided,
)
from concertino.messages import Media, MediaPart, Reasoning
from concertino.server.protocols.log_pieces import ERASED, NOT_FINISHED, LogPieces, Piece

BASE = ("r", "agent", 0)
PARTS = (Reasoning("I think"), Text("Hello "), Text("you"), ToolCall("c1", "add", '{"a": 1}'))
TURN = TurnCompleted(*BASE, AssistantMessage(PARTS), attempt="r:1:1")
DELTAS: tuple[RunEvent, ...] = (
    ReasoningDelta(*BASE, "I ", attempt="r:1:1"),
    ReasoningDelta(*BASE, "think", attempt="r:1:1"),
    TextDelta(*BASE, "Hello ", attempt="r:1:1"),
    TextDelta(*BASE, "you", attempt="r:1:1"),
    ToolCallDelta(*BASE, "c1", "add", '{"a"', attempt="r:1:1"),
    ToolCallDelta(*BASE, "c1", "add", ": 1}", attempt="r:1:1"),
)


def ended(text: str = "", status: Any = "completed") -> RunEnded:
    counts: dict[str, Any] = {"content_index": 0, "steps": 1, "tool_calls": {}, "usage": (), "data": {}}
    result = RunResult(run_id="r", agent_path="agent", status=status, text=text, messages=(), **counts)
    return RunEnded(*BASE, result)


def taken(*events: RunEvent) -> Iterator[Piece | RunEvent]:
    pieces = LogPieces("r")
    for number, event in enumerate(events, 1):
        yield from pieces.take(number, event)


def whole(items: Iterator[Piece | RunEvent]) -> dict[str, tuple[str, str, str]]:
    """Return the kind, the state and the text of each piece that is left; check the order of its changes."""
    found: dict[str, tuple[str, str, str]] = {}
    for piece in items:
        if not isinstance(piece, Piece):
            continue
        kind, phase, text = found.get(piece.id, (piece.kind, "", ""))
        assert (phase, piece.phase) in {
            *(
                ("", "start"),
                ("start", "delta"),
                ("start", "end"),
                ("delta", "delta"),
                ("delta", "end"),
                ("end", "void"),
            )
        }
        text += piece.text if piece.phase == "delta" else ""
        if piece.phase == "end":
            assert piece.text == text
        found[piece.id] = (kind, piece.phase, text)
    return {id: part for id, part in found.items() if part[1] != "void"}


ANSWER = [("reasoning", "end", "I think"), ("text", "end", "Hello you"), ("call", "end", '{"a": 1}')]


@given(st.integers(0, len(DELTAS)))
def test_deltas_up_to_any_point_and_the_answer_give_the_answer(count: int) -> None:
    assert list(whole(taken(*DELTAS[:count], TURN)).values()) == ANSWER
    assert list(whole(taken(*DELTAS[:count], TURN, ToolStarted(*BASE, "c1", "add", '{"a": 1}'))).values()) == ANSWER


@pytest.mark.parametrize("void", [AttemptFailed(*BASE, "m", "broke", "m", 0.0, "r:1:1"), Voided(*BASE, 1, 6, "r:1:1")])
def test_a_failed_attempt_is_void(void: RunEvent) -> None:
    again = TurnCompleted(*BASE, AssistantMessage((Text("Hi"),)), attempt="r:1:2")
    assert list(whole(taken(*DELTAS, void, again)).values()) == [("text", "end", "Hi")]


def test_a_crash_makes_all_pieces_of_its_range_void() -> None:
    again = TurnCompleted(*BASE, AssistantMessage((Text("Hi"),)), attempt="r:1:1")
    assert list(whole(taken(*DELTAS, TURN, Voided(*BASE, 3, 7), again)).values()) == [("text", "end", "Hi")]
    kept = whole(taken(*DELTAS, TURN, Voided(*BASE, 3, 7)))
    assert list(kept.values()) == [("reasoning", "end", "I think")]


def test_an_answer_that_differs_from_its_deltas_replaces_them() -> None:
    changed = TurnCompleted(*BASE, AssistantMessage((Text("Good day"),)), attempt="r:1:1")
    found = whole(taken(*DELTAS[2:4], changed))
    assert list(found.values()) == [("text", "end", "Good day")]


def test_internal_text_is_not_shown() -> None:
    delta, answer = TextDelta(*BASE, "x", "internal"), QuestionAnswered(*BASE, "x", "internal")
    assert list(taken(delta, answer, ToolsSelected(*BASE, ()))) == []
    assert list(whole(taken(QuestionAnswered(*BASE, "x", "answer", "q"))).values()) == [("text", "end", "x")]


def test_an_end_closes_everything() -> None:
    items = list(taken(*DELTAS[:5], ended("Hello you", "cancelled")))
    assert [part[:2] for part in whole(iter(items)).values()] == [
        ("reasoning", "end"),
        ("text", "end"),
        ("call", "end"),
    ]
    (failed,) = [item for item in items if isinstance(item, ToolFailed)]
    assert (failed.call_id, failed.name, failed.error) == ("c1", "add", NOT_FINISHED)


@pytest.mark.parametrize("status", ["completed", "cancelled"])
@pytest.mark.parametrize("erased", [True, False])
def test_an_outcome_that_was_erased_is_no_failure(status: str, *, erased: bool) -> None:
    pieces = LogPieces("r")
    list(pieces.take(1, TURN))
    outcome = next(
        item
        for item in pieces.take(9 if erased else 2, ended("Hello you", status))
        if isinstance(item, ToolDone | ToolFailed)
    )
    assert (outcome.call_id, outcome.name) == ("c1", "add")
    if erased and status == "completed":
        assert isinstance(outcome, ToolDone)
        assert outcome.content == ERASED
    else:
        assert isinstance(outcome, ToolFailed)
        assert outcome.error == NOT_FINISHED


def test_a_call_that_waits_stays_open() -> None:
    waiting = CallWaiting(*BASE, "c1", "add", "r:1.0", "approval", "{}")
    items = list(taken(TURN, waiting, ended("", "suspended"), ToolDone(*BASE, "c1", "add", "3")))
    assert not [item for item in items if isinstance(item, ToolFailed)]
    assert list(whole(iter(items)).values()) == ANSWER


def test_an_answer_that_no_turn_has_shown_is_shown_at_the_end() -> None:
    assert list(whole(taken(TURN, ended("Of a hook"))).values()) == [*ANSWER, ("text", "end", "Of a hook")]
    assert list(whole(taken(TURN, ended("Hello you"))).values()) == ANSWER


def test_a_call_outside_a_turn_starts_with_the_call() -> None:
    started, done = ToolStarted(*BASE, "c9", "add", "{}"), ToolDone(*BASE, "c9", "add", "3")
    assert [getattr(item, "phase", item) for item in taken(started, done)] == ["start", "delta", "end", started, done]
    assert [getattr(item, "phase", item) for item in taken(done)] == ["start", "end", done]


def test_media_are_shown_once() -> None:
    media = Media("image/png", data="AAAA")
    turn = TurnCompleted(*BASE, AssistantMessage((MediaPart(media),)), attempt="r:1:1")
    (piece,) = taken(turn)
    assert isinstance(piece, Piece)
    assert (piece.kind, piece.phase, piece.media) == ("media", "start", media)
