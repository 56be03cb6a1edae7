"""The view: what a model sees of a record. A pure fold of the record and its edits, kept up to date."""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ..messages import AssistantMessage, Message, Messages, SystemMessage, ToolMessage
from .edits import Edit, Reduce, Strip, Summarise
from .sizes import KINDS, Measure, Size

_NO_SIZE = Size(0, 0)


class View:
    """A record, its edits, and what they show. Appending costs the same at any length; an edit copies the view.

    Sizes are in tokens as *measure* counts them, before any calibration. What was appended is measured with the next
    `settle`; all but the lists of messages is about what was settled.
    """

    __slots__ = ("_before", "_measure", "by_kind", "edits", "groups", "places", "reasoned", "record", "shown")

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
        self.by_kind = [0] * KINDS
        self.reasoned = -1
        """The place of the last message that is shown with reasoning in it; -1: there is none."""

    def append(self, message: Message) -> None:
        """Add to the end."""
        self.record.append(message)
        self.shown.append(message)

    def settle(self) -> list[Message]:
        """Measure what was appended since the last time; these messages."""
        record, groups, before = self.record, self.groups, self._before
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
        return self._before[-1]

    def index(self, place: int) -> int:
        """The first index in `shown` whose place is not before *place*."""
        return bisect_left(self.places, place)

    def before(self, index: int) -> int:
        """The tokens in front of what is shown at *index*."""
        return self._before[index]

    def between(self, first: int, end: int) -> int:
        """The tokens that are shown of the messages from place *first* to before place *end*."""
        return self._before[self.index(end)] - self._before[self.index(first)]

    def at(self, place: int) -> Message | None:
        """What is shown of the message at *place*; None: nothing of its own."""
        index = self.index(place)
        return self.shown[index] if index < len(self.places) and self.places[index] == place else None

    def messages(self) -> Messages:
        """What is shown now; later changes do not show in it."""
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
        shown = list(self.shown)
        first = len(shown)
        for place, digest in zip(places, digests, strict=True):
            index = self.index(place)
            if index < len(shown) and self.places[index] == place and isinstance(shown[index], ToolMessage):
                shown[index] = reduced(shown[index], digest)
                first = min(first, index)
        self._show(first, shown, self.places)

    def _summarise(self, edit: Summarise) -> None:
        start, stop = self.index(edit.first), self.index(edit.end)
        kept = [index for index in range(start, stop) if self.places[index] in edit.kept]
        shown = [*self.shown[:start], SystemMessage(edit.text), *(self.shown[i] for i in kept), *self.shown[stop:]]
        places = self.places[:start]
        places.append(edit.first)
        places.extend(self.places[index] for index in kept)
        places.extend(self.places[stop:])
        self._show(start, shown, places)

    def _strip(self, end: int) -> None:
        shown: list[Message] = []
        places = array("l")
        first = stop = self.index(end)
        for index, message in enumerate(self.shown):
            stripped = without_reasoning(message) if index < stop else message
            if stripped is not message:
                first = min(first, index)
            if stripped is not None:
                shown.append(stripped)
                places.append(self.places[index])
        self._show(first, shown, places)

    def _show(self, first: int, shown: list[Message], places: array[int]) -> None:
        """Show *shown* from now on, which differs from *first* on."""
        for message in self.shown[first:]:
            tokens, kind = self._measure(message)
            self.by_kind[kind] -= tokens
        self.shown, self.places = shown, places
        del self._before[first + 1 :]
        total = self._before[-1]
        for message in shown[first:]:
            tokens, kind = self._measure(message)
            self.by_kind[kind] += tokens
            total += tokens
            self._before.append(total)
        at = next((i for i in range(len(shown) - 1, -1, -1) if _reasons(shown[i])), None)
        self.reasoned = -1 if at is None else places[at]


def fold(record: Iterable[Message], edits: Iterable[Edit]) -> list[Message]:
    """What is shown of *record* after *edits*."""
    view = View(lambda message: _NO_SIZE)  # noqa: ARG005 - nobody asks for sizes here
    for message in record:
        view.append(message)
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
