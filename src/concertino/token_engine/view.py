"""The view: the messages that a model is sent. A pure fold of a record and its edits, kept up to date."""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from ..messages import AssistantMessage, Message, Messages, ToolMessage, UserMessage
from .counting.sizes import KINDS, Measure, Size
from .edits import Edit, Reduce, Strip, Summarize

_NO_SIZE: Size = (0, 0)


class View:
    """A record, its edits, and the messages that they show.

    An *index* is that of a message in the record, a *position* that in the view. Messages are appended to `record`;
    `grow` takes them in, and `settle` also counts them. Before an edit, count all messages of the view or none. An edit
    costs time in proportion to what it changes: sums behind it are recomputed on demand, and a list that was handed out
    is copied.

    Sizes are in tokens as *measure* counts them, before calibration.
    """

    __slots__ = (
        "_before",
        "_kinds",
        "_lent",
        "_measure",
        "_settled",
        "_shown",
        "_sizes",
        "by_kind",
        "edits",
        "groups",
        "indexes",
        "omitted",
        "reasoned",
        "record",
        "tokens",
    )

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.record: list[Message] = []
        self.edits: list[Edit] = []
        self.groups = array("l")
        """By index: the index at which the message's group begins. A call and its results form a group, as do an answer
        that its provider paused and its continuation."""
        self._shown = self.record  # the same list until an edit
        self._lent = True  # the list of shown messages is copied before an edit
        self.indexes = array("l")
        """By position: the message's index, or the first index that a summary covers."""
        self._settled = False  # edits keep the sizes up to date from the first count on
        self._sizes = array("q")  # by position, of the counted messages
        self._kinds = bytearray()
        self._before = array("q", [0])  # by position: the tokens before it; an edit truncates it
        self.tokens = 0
        """Counted tokens of the view."""
        self.by_kind = [0] * KINDS
        """The same by kind of text."""
        self.omitted = 0
        """Counted tokens that the edits have removed."""
        self.reasoned = -1
        """Index of the last message shown with reasoning; -1: none."""

    def copy(self) -> View:
        """Return an independent view of the same messages and edits."""
        made = View(self._measure)
        made.record.extend(self.record)
        made.edits = list(self.edits)
        if self._shown is not self.record:
            made._shown, made._lent = list(self._shown), False
        made.groups, made.indexes = self.groups[:], self.indexes[:]
        made._sizes, made._kinds, made._before = self._sizes[:], self._kinds[:], self._before[:]
        made._settled = self._settled
        made.tokens, made.by_kind, made.omitted = self.tokens, list(self.by_kind), self.omitted
        made.reasoned = self.reasoned
        return made

    @property
    def shown(self) -> list[Message]:
        """Return the messages that the view shows. Do not change the list."""
        if self._shown is not self.record:
            self.grow()
        return self._shown

    @property
    def counted(self) -> int:
        """Return how many messages of the record are counted."""
        return len(self.groups) - (len(self.indexes) - len(self._sizes))

    def grow(self) -> None:
        """Take in the messages appended to the record since the last call."""
        record, groups, first = self.record, self.groups, len(self.groups)
        if first == len(record):
            return
        before = record[first - 1] if first else None
        fresh = record[first:]
        for index, message in enumerate(fresh, first):
            begins = message.role != "tool"
            if message.role == "assistant":
                if before is not None and before.role == "assistant" and before.stop_reason == "pause":
                    begins = False
                for part in message.parts:
                    if part.kind == "reasoning":
                        self.reasoned = index
            groups.append(index if begins or before is None else groups[-1])
            before = message
        self.indexes.extend(range(first, len(record)))
        if self._shown is not record:
            self._shown.extend(fresh)

    def settle(self) -> Iterable[tuple[int, Message, int]]:
        """Count the messages appended since the last call; return them with their indexes and tokens."""
        self.grow()
        self._settled = True
        first, by_kind = len(self._sizes), self.by_kind
        fresh = self._shown[first:]
        measured = list(map(self._measure, fresh))
        for tokens, kind in measured:
            by_kind[kind] += tokens
        self.tokens = sum(by_kind)
        self._sizes.extend([tokens for tokens, _ in measured])
        self._kinds.extend([kind for _, kind in measured])
        return zip(self.indexes[first:], fresh, self._sizes[first:], strict=True)

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
        return self._shown[position] if position < len(self.indexes) and self.indexes[position] == index else None

    def messages(self) -> Messages:
        """Return the messages shown now; later changes do not affect the returned sequence."""
        self._lent = True
        return Messages(self.shown)

    def apply(self, edit: Edit) -> None:
        """Append *edit* to the log and apply it. Messages that are no longer shown are ignored."""
        self.grow()
        if self._lent:
            self._shown, self._lent = list(self._shown), False
        self.edits.append(edit)
        before = self.tokens
        match edit:
            case Reduce():
                self._reduce(edit)
            case Summarize():
                self._summarize(edit)
            case Strip(end):
                self._strip(end)
        self.omitted += before - self.tokens

    def _reduce(self, edit: Reduce) -> None:
        shown, indexes, sizes, kinds, by_kind = self._shown, self.indexes, self._sizes, self._kinds, self.by_kind
        first = len(indexes)
        for index, digest in zip(edit.indexes, edit.digests, strict=True):
            position = bisect_left(indexes, index)
            if position == len(indexes) or indexes[position] != index:
                continue
            message = shown[position]
            if message.role != "tool":
                continue
            shown[position] = message = reduced(message, digest)
            if self._settled:
                by_kind[kinds[position]] -= sizes[position]
                self.tokens -= sizes[position]
                sizes[position], kinds[position] = tokens, kind = self._measure(message)
                by_kind[kind] += tokens
                self.tokens += tokens
                first = min(first, position)
        del self._before[first + 1 :]

    def _summarize(self, edit: Summarize) -> None:
        start, stop, stays = self.position(edit.first), self.position(edit.end), frozenset(edit.kept)
        kept = [position for position in range(start, stop) if self.indexes[position] in stays]
        shown = [UserMessage(edit.text), *(self._shown[position] for position in kept)]
        self._show(start, stop, shown, [edit.first, *(self.indexes[position] for position in kept)])
        if edit.first <= self.reasoned < edit.end:
            before = range(start + len(shown) - 1, -1, -1)
            self.reasoned = next((self.indexes[p] for p in before if has_reasoning(self._shown[p])), -1)

    def _strip(self, end: int) -> None:
        stop = self.position(end)
        start = next((position for position in range(stop) if has_reasoning(self._shown[position])), stop)
        stripped = [(without_reasoning(self._shown[p]), self.indexes[p]) for p in range(start, stop)]
        kept = [(message, index) for message, index in stripped if message is not None]
        self._show(start, stop, [message for message, _ in kept], [index for _, index in kept])
        if self.reasoned < end:
            self.reasoned = -1

    def _show(self, start: int, stop: int, shown: Sequence[Message], indexes: Sequence[int]) -> None:
        """Replace the messages from position *start* to before *stop* by *shown*, which have the *indexes*."""
        if self._settled:
            self._resize(start, stop, shown)
        self._shown[start:stop] = shown
        self.indexes[start:stop] = array("l", indexes)
        del self._before[start + 1 :]

    def _resize(self, start: int, stop: int, shown: Sequence[Message]) -> None:
        by_kind, measured = self.by_kind, [self._measure(message) for message in shown]
        for kind, tokens in zip(self._kinds[start:stop], self._sizes[start:stop], strict=True):
            by_kind[kind] -= tokens
        for tokens, kind in measured:
            by_kind[kind] += tokens
        self.tokens = sum(by_kind)
        self._sizes[start:stop] = array("q", [tokens for tokens, _ in measured])
        self._kinds[start:stop] = bytes([kind for _, kind in measured])


def unmeasured_view(record: Iterable[Message] = ()) -> View:
    """Return a view of *record* without sizes."""
    view = View(lambda message: _NO_SIZE)  # noqa: ARG005 - a measure takes a message
    view.record.extend(record)
    return view


def fold(record: Iterable[Message], edits: Iterable[Edit]) -> list[Message]:
    """Return the messages that *record* shows after *edits*."""
    view = unmeasured_view(record)
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
        message.call_id,
        message.name,
        digest,
        message.is_error,
        message.whole,
        message.summary,
        retain=message.retain,
        handle=message.handle,
    )


def without_reasoning(message: Message) -> Message | None:
    """Return *message* without its reasoning, or None if nothing else is in it."""
    if not isinstance(message, AssistantMessage) or not has_reasoning(message):
        return message
    parts = tuple([part for part in message.parts if part.kind != "reasoning"])
    return dataclasses.replace(message, parts=parts) if parts else None
