"""Events in the log: how a row stores pieces and media, and which pieces a complete event has replaced."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields
from operator import itemgetter
from typing import Any

from ..errors import DamagedDataError
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
from ..messages import MediaPart
from ..storage.types import EventPage

NumberedEvents = Sequence[tuple[int, RunEvent]]
"""Events with their numbers, in order."""
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


class PieceForm:
    """The form of the pieces of one source. They differ in their text only, so it is made once."""

    __slots__ = ("_form", "_same")

    def __init__(self) -> None:
        self._same: tuple[Any, ...] = ()
        self._form: dict[str, Any] = {}

    def of(self, event: RunEvent, field: str, same: tuple[Any, ...]) -> dict[str, Any]:
        """Return the form of a piece, whose text is in *field*; *same* is what pieces of one form have in common."""
        if same != self._same:
            self._same, self._form = same, event_json(event)
            return self._form
        return {**self._form, field: getattr(event, field)}


class Packer:
    """Collects the items of a row. A piece that differs from the one before in its text only is stored as its text.

    An item names the contents of its media by their digests.
    """

    __slots__ = ("_pieces", "contents", "items", "last")

    def __init__(self, pieces: PieceForm | None = None) -> None:
        self._pieces = pieces
        self.items: list[list[Any]] = []
        self.contents: dict[str, str] | None = None
        self.last: tuple[Any, ...] | None = None
        """What the next piece must have in common with the last one."""

    def add(self, offset: int, event: RunEvent) -> None:
        """Add *event* with its distance from the first event of the batch."""
        kind = type(event)
        field = PIECES.get(kind)
        if field is None:
            self.last = None
            form = event_json(event)
            if kind is TurnCompleted and event.message.media:  # type: ignore[union-attr]
                self.contents = {**(self.contents or {}), **_take_contents(event, form)}
            self.items.append([offset, form])
            return
        same = (kind, event.index, *source_of(event))
        if same == self.last:
            self.items.append([offset, getattr(event, field)])
        else:
            self.last = same
            form = event_json(event) if self._pieces is None else self._pieces.of(event, field, same)
            self.items.append([offset, form])


async def one_by_one(batches: AsyncGenerator[NumberedEvents, None]) -> AsyncGenerator[tuple[int, RunEvent], None]:
    """Yield each event of *batches*."""
    async with aclosing(batches):
        async for batch in batches:
            for numbered in batch:
                yield numbered
            del batch, numbered  # thousands of readers may wait for the next one


def unpack(page: EventPage, after: int) -> list[tuple[int, RunEvent]]:
    """Return the events of *page* after number *after* with their numbers, in order. Raises `StorageError`."""
    found: list[tuple[int, RunEvent]] = []
    for row in page.rows:
        kind: type[Any] = Event
        values: list[Any] = []
        position = 0
        for offset, item in row.items:
            if isinstance(item, str):
                values[position] = item
                event = kind(*values)
            else:
                if item.get("type") == "turn_completed":
                    _put_contents(item, page.contents)
                event = event_from_json(item)
                kind = type(event)
                if kind in PIECES:
                    names = [field.name for field in fields(kind)]
                    position, values = names.index(PIECES[kind]), [getattr(event, name) for name in names]
            if row.first + offset > after:
                found.append((row.first + offset, event))
    found.sort(key=itemgetter(0))
    return found


def _take_contents(event: Any, form: dict[str, Any]) -> dict[str, str]:
    """Replace the contents of the media in the *form* of an answer by their digests, and return them by digest."""
    contents: dict[str, str] = {}
    for part, written in zip(event.message.parts, form["message"]["parts"], strict=True):
        if isinstance(part, MediaPart) and part.media.data:
            contents[part.media.digest] = part.media.data
            written["media"] |= {"data": None, "data_digest": part.media.digest}
    return contents


def _put_contents(form: dict[str, Any], contents: Mapping[str, str]) -> None:
    """Put the contents back that `_take_contents` took. Raises `DamagedDataError` if one is missing."""
    for part in form["message"]["parts"]:
        digest = part.get("media", {}).get("data_digest")
        if digest is not None and digest not in contents:
            raise DamagedDataError(f"corrupt stored event: the content of its medium {digest[:12]} is missing")
        if digest is not None:
            part["media"]["data"] = contents[digest]


def without_replaced(events: NumberedEvents) -> list[tuple[int, RunEvent]]:
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
