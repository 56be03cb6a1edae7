"""The counts of a runtime, for metrics."""

from __future__ import annotations

from collections.abc import Sized

from ..records import record


@record(frozen=False)
class RuntimeCounts:
    """Counts of one process since its start."""

    _live: Sized
    parked_runs: int = 0
    """Runs that were left to be resumed, by this or another process."""
    voided_events: int = 0
    """Events that a retry or a crash undid."""
    lost_events: int = 0
    """Events that could not be stored: the store failed for too long, or another process continued the run."""
    late_answers: int = 0
    """Answers to waiting calls that changed nothing: another one, the deadline or a stop was first."""
    lost_messages: int = 0
    """Messages about runs (`Fleet.publishes`) that could not be sent."""

    @property
    def live_runs(self) -> int:
        """Runs in progress."""
        return len(self._live)
