"""The view: the messages that a model is sent. A pure fold of a record and its edits, kept up to date."""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ..messages import AssistantMessage, Message, Messages, SystemMessage, ToolMessage
from .counting.sizes import KINDS, Measure, Size
from .edits import Edit, Reduce, Strip, Summarize

_NO_SIZE = Size(0, 0)


class View:
    """A record, its edits, and the messages that they show.

    An *index* is that of a message in the record, a *position* that in the view. Appending takes constant time.
    `settle` counts the appended messages; call it before an edit and before reading sizes. An edit costs time in
    proportion to what it changes: sums behind it are recomputed on demand, and a list that was handed out is copied.

    Sizes are in tokens as *measure* counts them, before calibration.
    """

    __slots__ = (
        "_before",
        "_lent",
        "_measure",
        "by_kind",
        "edits",
        "groups",
        "indexes",
        "reasoned",
        "record",
        "settled",
        "shown",
    )

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.record: list[Message] = []
        self.edits: list[Edit] = []
        self.groups = array("l")
        """By index: the index at which the message's group begins. A call and its results form a group, as do an answer
        that its provider paused and its continuation."""
        self.shown: list[Message] = []
        self.indexes = array("l")
        """By position: the message's index, or the first index that a summary covers."""
        self.settled = 0
        """Messages of the record that are counted."""
        self._before = array("q", [0])  # by position: the tokens before it
        self._lent = False
        self.by_kind = [0] * KINDS
        self.reasoned = -1
        """Index of the last message shown with reasoning; -1: none."""

    def copy(self) -> View:
        """Return an independent view of the same messages and edits."""
        made = View(self._measure)
        made.record, made.edits, made.shown = list(self.record), list(self.edits), list(self.shown)
        made.groups, made.indexes, made._before = self.groups[:], self.indexes[:], self._before[:]
        made.by_kind, made.settled, made.reasoned = list(self.by_kind), self.settled, self.reasoned
        return made

    def append(self, message: Message) -> None:
        """Append a message to the record and to what is shown."""
        record, index = self.record, len(self.record)
        role = message.role
        if index and (role == "tool" or (role == "assistant" and _continues(record[-1]))):
            self.groups.append(self.groups[-1])
        else:
            self.groups.append(index)
        if role == "assistant" and has_reasoning(message):
            self.reasoned = index
        record.append(message)
        self.shown.append(message)
        self.indexes.append(index)

    def settle(self) -> list[Message]:
        """Count the messages appended since the last call, and return them."""
        before, by_kind, measure = self._summed(), self.by_kind, self._measure
        total = before[-1]
        fresh = self.record[self.settled :]
        for message in fresh:
            tokens, kind = measure(message)
            total += tokens
            before.append(total)
            by_kind[kind] += tokens
        self.settled = len(self.record)
        return fresh

    @property
    def tokens(self) -> int:
        """Return the tokens of the view."""
        return self._summed()[-1]

    def position(self, index: int) -> int:
        """Return the first position whose index is at least *index*."""
        return bisect_left(self.indexes, index)

    def before(self, position: int) -> int:
        """Return the tokens before *position*."""
        return self._summed()[position]

    def between(self, first: int, end: int) -> int:
        """Return the tokens shown of the messages from index *first* to before index *end*."""
        before, indexes = self._summed(), self.indexes
        return before[bisect_left(indexes, end)] - before[bisect_left(indexes, first)]

    def _summed(self) -> array[int]:
        """Return the sums by position. An edit truncates them where it begins."""
        before = self._before
        end = len(self.shown) - len(self.record) + self.settled
        if len(before) <= end:
            total = before[-1]
            for message in self.shown[len(before) - 1 : end]:
                total += self._measure(message).tokens
                before.append(total)
        return before

    def at(self, index: int) -> Message | None:
        """Return the message that the view shows for *index*, or None if it shows none of its own."""
        position = self.position(index)
        return self.shown[position] if position < len(self.indexes) and self.indexes[position] == index else None

    def messages(self) -> Messages:
        """Return the messages shown now; later changes do not affect the returned sequence."""
        self._lent = True
        return Messages(self.shown)

    def apply(self, edit: Edit) -> None:
        """Append *edit* to the log and apply it. Messages that are no longer shown are ignored."""
        self.edits.append(edit)
        match edit:
            case Reduce():
                self._reduce(edit)
            case Summarize():
                self._summarize(edit)
            case Strip(end):
                self._strip(end)

    def _reduce(self, edit: Reduce) -> None:
        self._own()
        shown, indexes, by_kind, measure = self.shown, self.indexes, self.by_kind, self._measure
        first = len(indexes)
        for index, digest in zip(edit.indexes, edit.digests, strict=True):
            position = bisect_left(indexes, index)
            if position == len(indexes) or indexes[position] != index:
                continue
            message = shown[position]
            if isinstance(message, ToolMessage):
                tokens, kind = measure(message)
                by_kind[kind] -= tokens
                shown[position] = message = reduced(message, digest)
                tokens, kind = measure(message)
                by_kind[kind] += tokens
                first = min(first, position)
        del self._before[first + 1 :]

    def _summarize(self, edit: Summarize) -> None:
        start, stop, stays = self.position(edit.first), self.position(edit.end), frozenset(edit.kept)
        kept = [position for position in range(start, stop) if self.indexes[position] in stays]
        shown = [SystemMessage(edit.text), *(self.shown[position] for position in kept)]
        self._show(start, stop, shown, [edit.first, *(self.indexes[position] for position in kept)])
        if edit.first <= self.reasoned < edit.end:
            before = range(start + len(shown) - 1, -1, -1)
            self.reasoned = next((self.indexes[p] for p in before if has_reasoning(self.shown[p])), -1)

    def _strip(self, end: int) -> None:
        stop = self.position(end)
        start = next((position for position in range(stop) if has_reasoning(self.shown[position])), stop)
        stripped = [(without_reasoning(self.shown[p]), self.indexes[p]) for p in range(start, stop)]
        kept = [(message, index) for message, index in stripped if message is not None]
        self._show(start, stop, [message for message, _ in kept], [index for _, index in kept])
        if self.reasoned < end:
            self.reasoned = -1

    def _show(self, start: int, stop: int, shown: Sequence[Message], indexes: Sequence[int]) -> None:
        """Replace the messages from position *start* to before *stop* by *shown*, which have the *indexes*."""
        for sign, messages in ((-1, self.shown[start:stop]), (1, shown)):
            for message in messages:
                tokens, kind = self._measure(message)
                self.by_kind[kind] += sign * tokens
        self._own()
        self.shown[start:stop] = shown
        self.indexes[start:stop] = array("l", indexes)
        del self._before[start + 1 :]

    def _own(self) -> None:
        """Copy the list of shown messages if it was handed out."""
        if self._lent:
            self.shown, self._lent = list(self.shown), False


def unmeasured_view(record: Iterable[Message] = ()) -> View:
    """Return a view of *record* without sizes."""
    view = View(lambda message: _NO_SIZE)  # noqa: ARG005 - a measure takes a message
    for message in record:
        view.append(message)
    return view


def fold(record: Iterable[Message], edits: Iterable[Edit]) -> list[Message]:
    """Return the messages that *record* shows after *edits*."""
    view = unmeasured_view(record)
    view.settle()
    for edit in edits:
        view.apply(edit)
    return view.shown


def _continues(last: Message) -> bool:
    return last.role == "assistant" and last.stop_reason == "pause"


def has_reasoning(message: Message) -> bool:
    """Return True if *message* is an answer with reasoning."""
    if message.role == "assistant":
        for part in message.parts:
            if part.kind == "reasoning":
                return True
    return False


def reduced(message: ToolMessage, digest: str) -> ToolMessage:
    """Return *message* with *digest* as its content."""
    return ToolMessage(
        call_id=message.call_id,
        name=message.name,
        content=digest,
        is_error=message.is_error,
        whole=message.whole,
        summary=message.summary,
        retain=message.retain,
        handle=message.handle,
    )


def without_reasoning(message: Message) -> Message | None:
    """Return *message* without its reasoning, or None if nothing else is in it."""
    if not isinstance(message, AssistantMessage) or not has_reasoning(message):
        return message
    parts = tuple([part for part in message.parts if part.kind != "reasoning"])
    return dataclasses.replace(message, parts=parts) if parts else None
