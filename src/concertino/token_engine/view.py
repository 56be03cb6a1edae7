"""The view: the messages that a model is sent. A pure fold of a record and its edits, kept up to date."""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

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
        "_kinds",
        "_lent",
        "_measure",
        "_sizes",
        "by_kind",
        "edits",
        "groups",
        "indexes",
        "reasoned",
        "record",
        "settled",
        "shown",
        "tokens",
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
        self._sizes = array("q")  # by position, of the counted messages
        self._kinds = bytearray()
        self._before = array("q", [0])  # by position: the tokens before it; an edit truncates it
        self._lent = False
        self.tokens = 0
        """Counted tokens of the view."""
        self.by_kind = [0] * KINDS
        """The same by kind of text."""
        self.reasoned = -1
        """Index of the last message shown with reasoning; -1: none."""

    def copy(self) -> View:
        """Return an independent view of the same messages and edits."""
        made = View(self._measure)
        made.record, made.edits, made.shown = list(self.record), list(self.edits), list(self.shown)
        made.groups, made.indexes = self.groups[:], self.indexes[:]
        made._sizes, made._kinds, made._before = self._sizes[:], self._kinds[:], self._before[:]
        made.tokens, made.by_kind = self.tokens, list(self.by_kind)
        made.settled, made.reasoned = self.settled, self.reasoned
        return made

    def append(self, message: Message) -> None:
        """Append a message to the record and to what is shown."""
        record, index = self.record, len(self.record)
        role = message.role
        begins = not index or role != "tool"
        if role == "assistant":
            if index and (last := record[-1]).role == "assistant" and last.stop_reason == "pause":
                begins = False
            if has_reasoning(message):
                self.reasoned = index
        self.groups.append(index if begins else self.groups[-1])
        record.append(message)
        self.shown.append(message)
        self.indexes.append(index)

    def settle(self) -> Iterable[tuple[Message, int]]:
        """Count the messages appended since the last call; return them with their tokens."""
        sizes, kinds, by_kind, measure = self._sizes, self._kinds, self.by_kind, self._measure
        fresh, total = self.record[self.settled :], self.tokens
        for message in fresh:
            tokens, kind = measure(message)
            sizes.append(tokens)
            kinds.append(kind)
            by_kind[kind] += tokens
            total += tokens
        self.settled, self.tokens = len(self.record), total
        return zip(fresh, sizes[len(sizes) - len(fresh) :], strict=True)

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
        """Return the tokens before each position, and the tokens of the whole view as the last element."""
        before, sizes = self._before, self._sizes
        if len(before) <= len(sizes):
            first = len(before) - 1
            before.extend(accumulate(sizes[first:], initial=before.pop()))
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
        shown, indexes, sizes, kinds, by_kind = self.shown, self.indexes, self._sizes, self._kinds, self.by_kind
        first = len(indexes)
        for index, digest in zip(edit.indexes, edit.digests, strict=True):
            position = bisect_left(indexes, index)
            if position == len(indexes) or indexes[position] != index:
                continue
            message = shown[position]
            if isinstance(message, ToolMessage):
                by_kind[kinds[position]] -= sizes[position]
                self.tokens -= sizes[position]
                shown[position] = message = reduced(message, digest)
                sizes[position], kinds[position] = tokens, kind = self._measure(message)
                by_kind[kind] += tokens
                self.tokens += tokens
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
        by_kind, measured = self.by_kind, [self._measure(message) for message in shown]
        for kind, tokens in zip(self._kinds[start:stop], self._sizes[start:stop], strict=True):
            by_kind[kind] -= tokens
        for tokens, kind in measured:
            by_kind[kind] += tokens
        self.tokens = sum(by_kind)
        self._sizes[start:stop] = array("q", [size.tokens for size in measured])
        self._kinds[start:stop] = bytes([size.kind for size in measured])
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
