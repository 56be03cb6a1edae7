"""Cache breakpoints: the messages up to which a provider is asked to cache a request.

Some providers cache only prefixes that end at a breakpoint, and look for an entry a limited number of blocks before
each breakpoint. The engine therefore sets breakpoints at the end, where the next request finds an entry; before the
first message that the next edit will change, so that this prefix survives the edit; and at the previous end, if a step
added more blocks than the provider looks back.
"""

from __future__ import annotations

from ...messages import Message
from ..counting.sizes import blocks
from ..view import View
from .rules import CacheRule

_MARGIN = 5
"""Blocks of the look-back left unused: a message can become more blocks on the wire than counted here."""


class Breakpoints:
    """The cache breakpoints of one conversation, by index in its record."""

    __slots__ = ("_before_edit", "_last", "_stable", "_summarized")

    def __init__(self) -> None:
        self._last: int | None = None
        """Last message of the last request that could carry a breakpoint."""
        self._stable: int | None = None
        """Last message that the next edit leaves unchanged."""
        self._before_edit: int | None = None
        """Last message that the previous edit left unchanged: its prefix is still cached."""
        self._summarized: int | None = None
        """Last message covered by a summary: the next summary follows it."""

    def edited(self, unchanged: int, next_unchanged: int) -> None:
        """Record a reduction of results after index *unchanged*; the next one will follow *next_unchanged*."""
        self._before_edit = unchanged if unchanged >= 0 else None
        self._stable = next_unchanged

    def expect(self, first: int | None, summarized: int) -> None:
        """Record that the next edit will begin at index *first*, and that summaries reach to index *summarized*."""
        if self._stable is None and first is not None:
            self._stable = first - 1
        self._summarized = summarized - 1 if summarized else None

    def select(self, view: View, rule: CacheRule, end: int) -> tuple[int, ...]:
        """Return ascending view positions for breakpoints, all before position *end*."""
        if not rule.breakpoints:
            return ()
        newest = _eligible(view, end - 1)
        if newest is None:
            return ()
        found = {newest}
        last = self._position(view, self._last)
        if last is not None and rule.reach and _blocks(view, last, newest) > rule.reach - _MARGIN:
            found.add(last)
        most = rule.max_breakpoints - (self._summarized is None)  # without a summary, one marks system and tools
        for index in (self._summarized, self._before_edit, self._stable):
            position = self._position(view, index)
            if position is not None and position < newest and len(found) < most:
                found.add(position)
        self._last = view.indexes[newest]
        return tuple(sorted(found))

    def _position(self, view: View, index: int | None) -> int | None:
        """Return the view position of record *index*, or of the last eligible message before it."""
        if index is None:
            return None
        position = view.position(index)
        if position >= len(view.indexes) or view.indexes[position] != index:
            position -= 1
        return _eligible(view, position)


def _eligible(view: View, position: int) -> int | None:
    while position >= 0:
        if can_end_prefix(view.shown[position]):
            return position
        position -= 1
    return None


def can_end_prefix(message: Message) -> bool:
    """Return True if *message* ends in a block that may carry a breakpoint: not empty, and not reasoning."""
    if message.role == "assistant":
        return bool(message.parts) and message.parts[-1].kind in ("text", "tool_call")
    return True


def _blocks(view: View, first: int, end: int) -> int:
    return sum([blocks(message) for message in view.shown[first + 1 : end + 1]])
