"""The cached prefix: how much of the last request the provider's cache can serve to the next one.

Some providers cache only prefixes that end at a breakpoint, and look for an entry a limited number of blocks before
each breakpoint. The engine therefore sets breakpoints at the end, where the next request finds an entry; before the
last summary, since the next one leaves that prefix unchanged; and at the newest entry, if more blocks follow it than
the provider looks back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...messages import Message
from ..counting.sizes import blocks
from ..edits import Edit, Reduce, Summarize
from ..view import View
from .rules import CacheRule

_MARGIN = 5
"""Blocks of the look-back left unused: a message can become more blocks on the wire than counted here."""


class CachedPrefix:
    """The prefix that requests of one conversation share, in counted tokens, and their cache breakpoints."""

    def __init__(self) -> None:
        self._last: int | None = None  # index of the last message that had a breakpoint
        self._marks: tuple[int, ...] | None = None  # view positions of the last request's breakpoints
        self.cacheable = 0
        """Counted tokens of the last request that the provider can cache, without the fixed parts."""
        self.same = 0
        """Counted tokens of the last request with which the next one begins, without the fixed parts."""
        self.edited = False
        """True if the view was edited since the last observation."""

    def shorten(self, edits: Sequence[Edit], view: View) -> None:
        """Take in *edits* that the view has applied: the next request shares less with the last one."""
        for edit in edits:
            first = edit.indexes[0] if isinstance(edit, Reduce) else 0
            if isinstance(edit, Summarize):
                first = next((index for index in range(edit.first, edit.end) if index not in edit.kept), edit.end)
            position = view.position(first)
            if self._marks is not None:
                position = max([mark + 1 for mark in self._marks if mark < position], default=0)
                self._last = view.indexes[position - 1] if position else None  # the entry that is left
            self.same = min(self.same, view.before(position))
        self.edited = True

    def mark(self, view: View, rule: CacheRule, end: int | None) -> tuple[int, ...] | None:
        """Return the breakpoints of a request for the view; None if the provider needs none.

        *end*: index from which on nothing is worth caching.
        """
        self._marks = None
        if not rule.breakpoints:
            return None
        view.grow()
        shown = view.shown
        newest = _eligible(shown, (len(shown) if end is None else view.position(end)) - 1)
        found = set() if newest is None else {newest}
        if newest is not None:
            last = _position(view, shown, self._last)
            added = 0 if last is None or not rule.reach else sum(map(blocks, shown[last + 1 : newest + 1]))
            if last is not None and added > rule.reach - _MARGIN:
                found.add(last)
            stable = _eligible(shown, view.position(view.summary) - 1) if view.summary >= 0 else None
            if stable is not None and stable < newest:
                found.add(stable)
            self._last = view.indexes[newest]
        self._marks = tuple(sorted(found))
        return self._marks

    def extend(self, view: View) -> None:
        """Take in the sizes of a request for the counted view."""
        marks = self._marks
        self.cacheable = view.before(len(view.indexes) if marks is None else marks[-1] + 1 if marks else 0)


def _position(view: View, shown: Sequence[Message], index: int | None) -> int | None:
    """Return the view position of record *index*, or of the last eligible message before it."""
    if index is None:
        return None
    position = view.position(index)
    if position >= len(view.indexes) or view.indexes[position] != index:
        position -= 1
    return _eligible(shown, position)


def _eligible(shown: Sequence[Message], position: int) -> int | None:
    while position >= 0:
        if can_end_prefix(shown[position]):
            return position
        position -= 1
    return None


def can_end_prefix(message: Message) -> bool:
    """Return True if *message* ends in a block that may carry a breakpoint: not empty, and not reasoning."""
    if message.role == "assistant":
        return bool(message.parts) and message.parts[-1].kind in ("text", "tool_call")
    return True
