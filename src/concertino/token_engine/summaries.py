"""Pending summaries: the one in progress, and the finished ones before they are applied."""

from __future__ import annotations

from collections.abc import Sequence

from ..context_state import ContextState
from .counting.base import TokenCounter
from .edits import Edit, Summarize, decode_edits
from .planner import Planner, SummaryJob

_MOST_FAILURES = 2
"""Consecutive failures after which no more summaries are requested."""


class PendingSummaries:
    """The summaries of one conversation that are not in the view yet."""

    __slots__ = ("_counter", "_failures", "_planner", "job", "prepared", "prepared_for")

    def __init__(self, planner: Planner, counter: TokenCounter) -> None:
        self._planner = planner
        self._counter = counter
        self._failures = 0
        self.job: SummaryJob | None = None
        """The summary that is being made."""
        self.prepared: list[Summarize] = []
        """Summaries that are made and not applied yet."""
        self.prepared_for: SummaryJob | None = None
        """The job of the prepared summaries."""

    @property
    def possible(self) -> bool:
        """Return False after repeated failures."""
        return self._failures < _MOST_FAILURES

    def complete(self, job: SummaryJob, text: str | None, merged: str | None) -> bool:
        """Take in the texts for *job*; return False if they change nothing. See `TokenEngine.complete`."""
        if job is not self.job:
            return False  # the conversation was replaced, or its messages omitted
        self.job = None
        text = self._valid(text, job.tokens)
        if text is None:
            self._failures += 1
            self._planner.carrying_cost = (self._planner.carrying_cost[0], 0.0)
            return False
        self._failures = 0
        merged = self._valid(merged, 2 * sum(self._counter.count(old.text) for old in job.merges))
        self.prepared, self.prepared_for = self._planner.prepare(job, text, merged), job
        return True

    def _valid(self, text: str | None, tokens: int) -> str | None:
        """Return the stripped summary of *tokens*, or None if it is empty or longer than half of them."""
        text = (text or "").strip()
        return text if text and self._counter.count(text) <= max(tokens // 2, 1) else None

    def restore(self, edits: Sequence[Edit]) -> None:
        """Restore prepared summaries from the journal or the last run; ignore those of other messages."""
        made = [edit for edit in edits if isinstance(edit, Summarize) and self._planner.fits(edit)]
        if made and made[-1].end > self._planner.summarized:
            self.prepared = made
            self.prepared_for = SummaryJob(made[-1].first, made[-1].end, made[-1].kept, 0, immediate=True)

    def take(self) -> list[Summarize]:
        """Return the prepared summaries and forget them."""
        made, self.prepared, self.prepared_for = self.prepared, [], None
        return made

    def discard(self) -> None:
        """Forget all summaries: their messages are no longer in the view."""
        self.job, self.prepared, self.prepared_for = None, [], None


def prepared_edits(state: ContextState, offset: int) -> list[Edit]:
    """Return the prepared summaries of *state*, for a record whose conversation begins at index *offset*."""
    return decode_edits(state.prepared, offset)
