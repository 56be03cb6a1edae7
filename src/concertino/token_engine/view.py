"""The view: the messages that a model is sent. A pure fold of a record and its edits, kept up to date."""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from operator import itemgetter

from ..messages import AssistantMessage, Message, Messages, UserMessage
from ..unread_messages import UnreadPart
from .edits import Edit, Reduce, Strip, Summarize


class View:
    """A record, its edits, and the messages that they show.

    An *index* is that of a message in the record, a *position* that in the view. Messages are appended to `record`;
    `grow` takes them in, and `settle` also counts them. Before an edit, count all messages of the view or none.
    """

    def __init__(self, measure: Callable[[Message], int] = lambda _: 0, record: Iterable[Message] = ()) -> None:
        self._measure = measure
        self.record: list[Message] = [*record]
        self.edits: list[Edit] = []
        self.unread: UnreadPart | None = None
        """The part of the record and of the edits that was not read. All of it is out of view."""
        self.groups = array("l")
        """By index: the index at which the message's group begins. A call and its results form a group, as do an answer
        that its provider paused and its continuation."""
        self._shown = self.record  # the same list until an edit
        self._lent = True  # the list of shown messages was handed out: an edit copies it
        self.indexes = array("l")
        """By position: the message's index. A summary has that of the last message that it replaces."""
        self._settled = False  # edits keep the sizes up to date from the first count on
        self._sizes = array("q")  # by position, of the counted messages
        self.tokens = self.omitted = self.replaced = 0
        """Counted tokens of the view, those that it omits, and those of messages that edits have replaced."""
        self.reasoned = self.summary = -1
        """Indexes of the last message shown with reasoning, and of the last summary; -1: none."""

    def copy(self) -> View:
        """Return an independent view of the same messages and edits."""
        made = copy(self)
        vars(made).update({name: value[:] for name, value in vars(self).items() if isinstance(value, list | array)})
        made._shown = made.record if self._shown is self.record else made._shown
        return made

    @property
    def shown(self) -> list[Message]:
        """Return the messages that the view shows."""
        if self._shown is not self.record:
            self.grow()
        return self._shown

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

    def whole(self) -> list[Message]:
        """Return the record after everything unread of it, and of the edits, was read."""
        if self.unread is not None:
            self.unread.read()
        return self.record

    def settle(self) -> Iterable[tuple[int, Message]]:
        """Count the messages appended since the last call; return them with their indexes."""
        self.grow()
        self._settled = True
        first = len(self._sizes)
        fresh = self._shown[first:]
        sizes = list(map(self._measure, fresh))
        self.tokens += sum(sizes)
        self._sizes.extend(sizes)
        return zip(self.indexes[first:], fresh, strict=True)

    def position(self, index: int) -> int:
        """Return the first position whose index is at least *index*."""
        return bisect_left(self.indexes, index)

    def before(self, position: int) -> int:
        """Return the tokens before *position*, which is usually near the end."""
        return self.tokens - sum(self._sizes[position:])

    def size(self, index: int) -> int:
        """Return the tokens that the view shows for *index*."""
        return sum(self._sizes[self.position(index) : self.position(index + 1)])

    def at(self, index: int) -> Message | None:
        """Return the message that the view shows for *index*, or None if it shows none of its own."""
        position = self.position(index)
        return self._shown[position] if position < len(self.indexes) and self.indexes[position] == index else None

    def messages(self) -> Messages:
        """Return the messages shown now."""
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
            case Reduce(indexes, digests):
                for index, digest in zip(indexes, digests, strict=True):
                    message = self.at(index)
                    if message is not None and message.role == "tool":
                        start = self.position(index)
                        shown = dataclasses.replace(message, content=digest, media=(), stored=True)
                        self._show(start, start + 1, [(index, shown)])
            case Summarize():
                self._summarize(edit)
            case Strip(end):
                stop = self.position(end)
                every = self._pairs(0, stop)
                self._show(0, stop, [(n, bare) for n, each in every if (bare := without_reasoning(each)) is not None])
        if self.reasoned >= 0 and not isinstance(edit, Reduce):
            every = self._pairs(0, self.position(self.reasoned + 1))  # an edit shows no other reasoning
            self.reasoned = next((n for n, each in reversed(every) if without_reasoning(each) is not each), -1)
        self.omitted += before - self.tokens

    def _summarize(self, edit: Summarize) -> None:
        start, stop, stays = self.position(edit.first), self.position(edit.end), frozenset(edit.kept)
        self.summary = last = next(index for index in range(edit.end - 1, -2, -1) if index not in stays)
        shown: list[tuple[int, Message]] = [(last, UserMessage(edit.text))]
        shown += [(n, own) for n in stays if edit.first <= n < edit.end and (own := self.at(n)) is not None]
        self._show(start, stop, sorted(shown, key=itemgetter(0)))

    def _pairs(self, start: int, stop: int) -> list[tuple[int, Message]]:
        return list(zip(self.indexes[start:stop], self._shown[start:stop], strict=True))

    def _show(self, start: int, stop: int, shown: Sequence[tuple[int, Message]]) -> None:
        """Replace the messages from position *start* to before *stop* by those *shown*, which have the indexes."""
        messages = [message for _, message in shown]
        if self._settled:
            sizes, replaced = array("q", map(self._measure, messages)), sum(self._sizes[start:stop])
            self.tokens += sum(sizes) - replaced
            self.replaced += replaced
            self._sizes[start:stop] = sizes
        self._shown[start:stop] = messages
        self.indexes[start:stop] = array("l", [index for index, _ in shown])


def without_reasoning(message: Message) -> Message | None:
    """Return *message* without its reasoning, or None if nothing else is in it."""
    if not isinstance(message, AssistantMessage) or all(part.kind != "reasoning" for part in message.parts):
        return message
    parts = tuple([part for part in message.parts if part.kind != "reasoning"])
    return dataclasses.replace(message, parts=parts) if parts else None
