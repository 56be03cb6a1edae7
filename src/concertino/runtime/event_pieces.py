"""Pieces in the log: how a row stores many of them, and which of them a complete event has replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any

from ..event_form import event_from_json, event_json
from ..events import (
    Event,
    QuestionAnswered,
    ReasoningDelta,
    RunEnded,
    RunEvent,
    TextDelta,
    ToolCallDelta,
    ToolDone,
    ToolFailed,
    ToolStreamed,
    TurnCompleted,
)
from ..storage.types import StoredEvents

PIECES: dict[type[Any], str] = {
    TextDelta: "text",
    ReasoningDelta: "text",
    ToolCallDelta: "arguments",
    ToolStreamed: "content",
}
"""The events that are pieces of an answer or of a result, and the field with the piece."""
_COMPLETE = (TurnCompleted, QuestionAnswered, ToolDone, ToolFailed)


def source_of(event: Any) -> tuple[str, str]:
    """Return the run, and the attempt or the call, that a piece or the event that replaces it belongs to."""
    return event.run_id, event.attempt if hasattr(event, "attempt") else event.call_id


def completes(event: RunEvent) -> bool:
    """Return whether *event* replaces the pieces of its source."""
    return isinstance(event, _COMPLETE)


class Packer:
    """Collects the items of a row. A piece that differs from the one before in its text only is stored as its text."""

    __slots__ = ("items", "last")

    def __init__(self) -> None:
        self.items: list[list[Any]] = []
        self.last: tuple[Any, ...] | None = None
        """What the next piece must have in common with the last one."""

    def add(self, offset: int, event: RunEvent) -> None:
        """Add *event* with its distance from the first event of the batch."""
        kind = type(event)
        field = PIECES.get(kind)
        if field is None:
            self.last = None
            self.items.append([offset, event_json(event)])
            return
        same = (kind, event.index, *source_of(event))
        if same == self.last:
            self.items.append([offset, getattr(event, field)])
        else:
            self.last = same
            self.items.append([offset, event_json(event)])


def unpack(rows: Iterable[StoredEvents], after: int) -> list[tuple[int, RunEvent]]:
    """Return the events of *rows* after number *after* with their numbers, in order."""
    found: list[tuple[int, RunEvent]] = []
    for row in rows:
        kind: type[Any] = Event
        values: list[Any] = []
        position = 0
        for offset, item in row.items:
            if isinstance(item, str):
                values[position] = item
                event = kind(*values)
            else:
                event = event_from_json(item)
                kind = type(event)
                if kind in PIECES:
                    names = [field.name for field in fields(kind)]
                    position, values = names.index(PIECES[kind]), [getattr(event, name) for name in names]
            if row.first + offset > after:
                found.append((row.first + offset, event))
    found.sort(key=itemgetter(0))
    return found


def without_replaced(events: Sequence[tuple[int, RunEvent]]) -> list[tuple[int, RunEvent]]:
    """Return *events* without the pieces that a later event among them replaces."""
    complete: set[Any] = set()
    kept = []
    for number, event in reversed(events):
        kind: type[Any] = type(event)
        if kind in PIECES:  # spelled out: there may be thousands
            source = event.call_id if kind is ToolStreamed else event.attempt  # type: ignore[union-attr]
            if event.run_id in complete or (event.run_id, source) in complete:
                continue
        elif completes(event):
            complete.add(source_of(event))
        elif isinstance(event, RunEnded):
            complete.add(event.run_id)
        kept.append((number, event))
    kept.reverse()
    return kept
