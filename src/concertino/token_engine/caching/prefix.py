"""The cached prefix: how much of the last request the provider's cache can serve to the next one."""

from __future__ import annotations

from collections.abc import Sequence

from ..candidates import Candidates
from ..edits import Edit, Reduce, Summarize
from ..view import View
from ..window import WindowBudget
from .breakpoints import Breakpoints


class CachedPrefix:
    """The prefix that requests of one conversation share, in counted tokens, and their cache breakpoints."""

    __slots__ = ("_breakpoints", "breakpoints", "by_kind", "cacheable", "edited", "same")

    def __init__(self) -> None:
        self._breakpoints = Breakpoints()
        self.breakpoints: tuple[int, ...] | None = None
        """View positions of the last request's breakpoints; None if the provider needs none."""
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
            if self.breakpoints is not None:
                position = max([mark + 1 for mark in self.breakpoints if mark < position], default=0)
            self.same = min(self.same, window.fixed.tokens + view.before(position))
            if isinstance(edit, Reduce):
                newest = candidates.first_kept
                self._breakpoints.edited(first - 1, len(view.record) - 1 if newest is None else newest - 1)
        self.edited = True

    def extend(
        self, view: View, window: WindowBudget, candidates: Candidates, summarized: int, *, counted: bool
    ) -> None:
        """Set the breakpoints of a request for the view. *counted*: its messages are counted, so sizes are known."""
        end = len(view.shown)
        if window.rule.breakpoints:
            once = candidates.first_single_use
            if once is not None and window.binding != "prefix":  # reduced next: not worth caching
                end = view.position(once)
            self._breakpoints.expect(candidates.first_unreduced, summarized)
            self.breakpoints = self._breakpoints.select(view, window.rule, end)
            end = self.breakpoints[-1] + 1 if self.breakpoints else 0
        else:
            self.breakpoints = None
        if counted:
            self.cacheable = window.fixed.tokens + view.before(end)
            self.by_kind = tuple(view.by_kind)
