"""Where a request's prefix is marked for a cache that only keeps what is marked.

An entry is written at each mark, and looked for from each mark some blocks back. So: one at the end, which the next
request will find; one where the next edit will begin, so that what stands before it stays in the cache; and, where so
much was added at once that the last end is out of reach, one there.
"""

from __future__ import annotations

from ...messages import Message
from ..counting.sizes import blocks
from ..view import View
from .rules import CacheRule

_MARGIN = 5
"""Blocks by which the reach is not used up: what a message becomes on the wire may be more than we count."""


class Marks:
    """The marks of one conversation's requests, by place in its record."""

    __slots__ = ("_last", "_older", "_stable", "_summarised")

    def __init__(self) -> None:
        self._last: int | None = None
        """The last message of the last request that could be marked."""
        self._stable: int | None = None
        """The message before which nothing will be edited soon."""
        self._older: int | None = None
        """The message before which the last edit was made: what stands before it is still in the cache."""
        self._summarised: int | None = None
        """The last message that a summary stands for: the next one will stand behind it."""

    def edited(self, behind: int, next_behind: int) -> None:
        """Results were reduced behind place *behind*; the next ones will be behind *next_behind*."""
        self._older = behind if behind >= 0 else None
        self._stable = next_behind

    def expect(self, place: int | None, gone: int) -> None:
        """The first edit will begin at *place*, if that is known yet: what stands before it is marked while it is near
        the end, for the provider to remember it. *gone*: up to which place messages were summarised."""
        if self._stable is None and place is not None:
            self._stable = place - 1
        self._summarised = gone - 1 if gone else None

    def place(self, view: View, rule: CacheRule, until: int) -> tuple[int, ...]:
        """The indices in the view of the messages to be marked, ascending. *until*: the index that must not be cached,
        nor what follows it."""
        if not rule.marks:
            return ()
        end = _markable(view, until - 1)
        if end is None:
            return ()
        found = {end}
        last = self._index(view, self._last)
        if last is not None and rule.reach and _blocks(view, last, end) > rule.reach - _MARGIN:
            found.add(last)
        most = rule.most_marks - (self._summarised is None)  # or there is one behind system and tools
        for place in (self._summarised, self._older, self._stable):
            index = self._index(view, place)
            if index is not None and index < end and len(found) < most:
                found.add(index)
        self._last = view.places[end]
        return tuple(sorted(found))

    def _index(self, view: View, place: int | None) -> int | None:
        """Where the message at *place* is shown, or the last one before it that can be marked."""
        if place is None:
            return None
        index = view.index(place)
        if index >= len(view.places) or view.places[index] != place:
            index -= 1
        return _markable(view, index)


def _markable(view: View, index: int) -> int | None:
    while index >= 0:
        if markable(view.shown[index]):
            return index
        index -= 1
    return None


def markable(message: Message) -> bool:
    """Whether *message* ends in a block that may be marked: no reasoning, and not empty."""
    if message.role == "assistant":
        return bool(message.parts) and message.parts[-1].kind in ("text", "tool_call")
    return True


def _blocks(view: View, first: int, end: int) -> int:
    return sum(blocks(message) for message in view.shown[first + 1 : end + 1])
