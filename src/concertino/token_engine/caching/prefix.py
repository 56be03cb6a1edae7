"""The cached prefix: how much of the last request the provider's cache can serve to the next one.

Some providers cache only prefixes that end at a breakpoint, and look for an entry a limited number of blocks before
each breakpoint. The engine therefore sets breakpoints at the end, where the next request finds an entry; before the
first message that the next edit will change, so that this prefix survives the edit; and at the previous end, if a step
added more blocks than the provider looks back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...messages import Message
from ..candidates import Candidates
from ..counting.sizes import blocks
from ..edits import Edit, Reduce, Summarize
from ..fold import ConversationFold
from ..view import View
from ..window import WindowBudget
from .rules import CacheRule

_MARGIN = 5
"""Blocks of the look-back left unused: a message can become more blocks on the wire than counted here."""


class CachedPrefix:
    """The prefix that requests of one conversation share, in counted tokens, and their cache breakpoints."""

    __slots__ = ("_breakpoints", "_marks", "by_kind", "cacheable", "edited", "same")

    def __init__(self) -> None:
        self._breakpoints = Breakpoints()
        self._marks: tuple[int, ...] | None = None  # view positions of the last request's breakpoints
        self.by_kind: tuple[int, ...] = ()
        """Counted tokens of the last request's view by kind of text."""
        self.cacheable = 0
        """Tokens of the last request that the provider can cache."""
        self.same = 0
        """Tokens of the last request with which the next one begins."""
        self.edited = False
        """True if the view was edited since the last observation."""

    def shorten(self, edits: Sequence[Edit], view: View, window: WindowBudget, candidates: Candidates) -> None:
        """Take in *edits* that the view has applied: the next request shares less with the last one."""
        for edit in edits:
            first = edit.indexes[0] if isinstance(edit, Reduce) else edit.first if isinstance(edit, Summarize) else 0
            position = view.position(first)
            if self._marks is not None:
                position = max([mark + 1 for mark in self._marks if mark < position], default=0)
            self.same = min(self.same, window.fixed.tokens + view.before(position))
            if isinstance(edit, Reduce):
                newest = candidates.first_kept
                self._breakpoints.edited(first - 1, len(view.record) - 1 if newest is None else newest - 1)
        self.edited = True

    def mark(self, view: View, window: WindowBudget, fold: ConversationFold | None) -> tuple[int, ...] | None:
        """Return the breakpoints of a request for the view; None if the provider needs none."""
        self._marks = None
        if window.rule.breakpoints:
            view.grow()
            end = len(view.indexes)
            if fold is not None:
                once = fold.candidates.first_single_use
                if once is not None and window.binding != "prefix":  # reduced next: not worth caching
                    end = view.position(once)
                self._breakpoints.expect(fold.candidates.first_unreduced, fold.planner.summarized)
            self._marks = self._breakpoints.select(view, window.rule, end)
        return self._marks

    def extend(self, view: View, fixed_tokens: int) -> None:
        """Take in the sizes of a request for the counted view; *fixed_tokens* are those of its fixed parts."""
        marks = self._marks
        end = len(view.indexes) if marks is None else marks[-1] + 1 if marks else 0
        self.cacheable = fixed_tokens + view.before(end)
        self.by_kind = tuple(view.by_kind)


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
        shown = view.shown
        newest = _eligible(shown, end - 1)
        if newest is None:
            return ()
        found = {newest}
        last = _position(view, shown, self._last)
        if last is not None and rule.reach and sum(map(blocks, shown[last + 1 : newest + 1])) > rule.reach - _MARGIN:
            found.add(last)
        most = rule.max_breakpoints - (self._summarized is None)  # without a summary, one marks system and tools
        for index in (self._summarized, self._before_edit, self._stable):
            position = _position(view, shown, index)
            if position is not None and position < newest and len(found) < most:
                found.add(position)
        self._last = view.indexes[newest]
        return tuple(sorted(found))


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
