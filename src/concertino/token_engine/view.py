"""The view: what a model sees of a record. A pure fold of the record and its edits, kept up to date."""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ..messages import AssistantMessage, Message, Messages, SystemMessage, ToolMessage
from .counting.sizes import KINDS, Measure, Size
from .edits import Edit, Reduce, Strip, Summarise

_NO_SIZE = Size(0, 0)


class View:
    """A record, its edits, and what they show. Appending costs the same at any length. An edit looks at what it is
    about; what stands behind that is summed up anew once somebody asks, and what was handed out is copied first.

    Sizes are in tokens as *measure* counts them, before any calibration. What was appended is measured with the next
    `settle`, which comes before an edit; all but the lists of messages is about what was settled.
    """

    __slots__ = ("_before", "_lent", "_measure", "by_kind", "edits", "groups", "places", "reasoned", "record", "shown")

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.record: list[Message] = []
        self.edits: list[Edit] = []
        self.groups = array("l")
        """By place, where the group of the message begins: a call and its results are one, as is an answer that its
        provider paused and what continues it."""
        self.shown: list[Message] = []
        self.places = array("l")
        """By index in `shown`: which message of the record it is, or the first one that a summary stands for."""
        self._before = array("q", [0])
        self._lent = False
        self.by_kind = [0] * KINDS
        self.reasoned = -1
        """The place of the last message that is shown with reasoning in it; -1: there is none."""

    def append(self, message: Message) -> None:
        """Add to the end."""
        self.record.append(message)
        self.shown.append(message)

    def settle(self) -> list[Message]:
        """Measure what was appended since the last time; these messages."""
        record, groups, before = self.record, self.groups, self._summed()
        first = len(groups)
        total = before[-1]
        fresh = record[first:]
        for place, message in enumerate(fresh, first):
            groups.append(groups[-1] if place and _joins(message, record[place - 1]) else place)
            self.places.append(place)
            tokens, kind = self._measure(message)
            total += tokens
            before.append(total)
            self.by_kind[kind] += tokens
            if message.role == "assistant" and _reasons(message):
                self.reasoned = place
        return fresh

    @property
    def tokens(self) -> int:
        """Of all that is shown."""
        return self._summed()[-1]

    def index(self, place: int) -> int:
        """The first index in `shown` whose place is not before *place*."""
        return bisect_left(self.places, place)

    def before(self, index: int) -> int:
        """The tokens in front of what is shown at *index*."""
        return self._summed()[index]

    def between(self, first: int, end: int) -> int:
        """The tokens that are shown of the messages from place *first* to before place *end*."""
        before = self._summed()
        return before[self.index(end)] - before[self.index(first)]

    def _summed(self) -> array[int]:
        """By index, the tokens in front of it. An edit cuts the sums off where it begins."""
        before, end = self._before, len(self.places)
        if len(before) <= end:
            total = before[-1]
            for message in self.shown[len(before) - 1 : end]:
                total += self._measure(message).tokens
                before.append(total)
        return before

    def at(self, place: int) -> Message | None:
        """What is shown of the message at *place*; None: nothing of its own."""
        index = self.index(place)
        return self.shown[index] if index < len(self.places) and self.places[index] == place else None

    def messages(self) -> Messages:
        """What is shown now; later changes do not show in it."""
        self._lent = True
        return Messages(self.shown)

    def apply(self, edit: Edit) -> None:
        """Put *edit* at the end of the log. What is no longer shown is left as it is."""
        self.edits.append(edit)
        match edit:
            case Reduce(places, digests):
                self._reduce(places, digests)
            case Summarise():
                self._summarise(edit)
            case Strip(end):
                self._strip(end)

    def _reduce(self, places: Sequence[int], digests: Sequence[str]) -> None:
        for place, digest in zip(places, digests, strict=True):
            message = self.at(place)
            if isinstance(message, ToolMessage):
                index = self.index(place)
                self._show(index, index + 1, [reduced(message, digest)], [place])

    def _summarise(self, edit: Summarise) -> None:
        start, stop, stays = self.index(edit.first), self.index(edit.end), frozenset(edit.kept)
        kept = [index for index in range(start, stop) if self.places[index] in stays]
        shown = [SystemMessage(edit.text), *(self.shown[index] for index in kept)]
        self._show(start, stop, shown, [edit.first, *(self.places[index] for index in kept)])
        if edit.first <= self.reasoned < edit.end:
            indices = range(start + len(shown) - 1, -1, -1)
            self.reasoned = next((self.places[index] for index in indices if _reasons(self.shown[index])), -1)

    def _strip(self, end: int) -> None:
        stop = self.index(end)
        start = next((index for index in range(stop) if _reasons(self.shown[index])), stop)
        stripped = [(without_reasoning(self.shown[index]), self.places[index]) for index in range(start, stop)]
        kept = [(message, place) for message, place in stripped if message is not None]
        self._show(start, stop, [message for message, _ in kept], [place for _, place in kept])
        if self.reasoned < end:
            self.reasoned = -1

    def _show(self, start: int, stop: int, shown: Sequence[Message], places: Sequence[int]) -> None:
        """Show *shown*, which stand for *places*, in the stead of what is shown from index *start* to before *stop*."""
        for message in self.shown[start:stop]:
            tokens, kind = self._measure(message)
            self.by_kind[kind] -= tokens
        for message in shown:
            tokens, kind = self._measure(message)
            self.by_kind[kind] += tokens
        if self._lent:
            self.shown, self._lent = list(self.shown), False
        self.shown[start:stop] = shown
        self.places[start:stop] = array("l", places)
        del self._before[start + 1 :]


def uncounted(record: Iterable[Message] = ()) -> View:
    """A view of *record* for one who asks for no sizes."""
    view = View(lambda message: _NO_SIZE)  # noqa: ARG005 - see above
    for message in record:
        view.append(message)
    return view


def fold(record: Iterable[Message], edits: Iterable[Edit]) -> list[Message]:
    """What is shown of *record* after *edits*."""
    view = uncounted(record)
    view.settle()
    for edit in edits:
        view.apply(edit)
    return view.shown


def _joins(message: Message, last: Message) -> bool:
    if message.role == "tool":
        return True
    return message.role == "assistant" and last.role == "assistant" and last.stop_reason == "pause"


def _reasons(message: Message) -> bool:
    return message.role == "assistant" and any(part.kind == "reasoning" for part in message.parts)


def reduced(message: Message, digest: str) -> Message:
    """A result as it is shown once it is reduced."""
    assert isinstance(message, ToolMessage)
    return dataclasses.replace(message, content=digest, media=())


def without_reasoning(message: Message) -> Message | None:
    """*message* as it is; without its reasoning, if it has some; None if nothing else is in it."""
    if not isinstance(message, AssistantMessage) or not _reasons(message):
        return message
    parts = tuple([part for part in message.parts if part.kind != "reasoning"])
    return dataclasses.replace(message, parts=parts) if parts else None
