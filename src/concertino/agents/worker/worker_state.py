"""The state of a worker's run, and the conditions that end its loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from decimal import Decimal

from ...records import record
from ..living_document import LivingDocument
from .definition import Confidence, LoopConfig

RESPONDED = "responded"
"""Why the loop ended with an answer of the model that decides."""
EMPTY_RESPONSE = "empty_response"
"""Why the loop ended: the model responded without an answer."""
MOST_IDLE = 3
"""Consecutive passes without tools after which the loop ends."""
_STALE = 2


@record(frozen=False)
class WorkerState:
    """The state of a worker's run. The journal keeps it with every step."""

    document: LivingDocument = field(default_factory=LivingDocument)
    passes: int = 0
    """The number of passes begun."""
    enriched: str = ""
    """Results of the pre-enrichment."""
    called: list[str] = field(default_factory=list)
    """The names and arguments of all calls so far."""
    repeated: list[str] = field(default_factory=list)
    """Tools of the last pass whose calls were not run again."""
    only_repeated: bool = False
    """Whether all calls of the last pass had run before."""
    confidence: list[Confidence] = field(default_factory=list)
    """The confidence of each pass of the current model."""
    idle: int = 0
    """The number of passes without tools since the last pass with tools."""
    escalated: str = ""
    """The reason why the escalation model has taken over; empty if it has not."""
    unreadable: str = ""
    """The problem with the last answer; empty if it was a decision."""
    retries: bool = False
    """Whether the next step repeats the pass, because its decision was unreadable."""
    gathered: int = 0
    """The number of results so far."""
    sources: list[str] = field(default_factory=list)
    """The calls whose results the model has read since its last decision."""
    repairs: list[str] = field(default_factory=list)
    """The repairs of malformed decisions."""
    ended: str = ""
    """Why the loop ended; see `EXIT_CONDITIONS`."""

    def can_escalate(self, config: LoopConfig) -> bool:
        """Return whether the worker can still change to a stronger model."""
        return config.escalation_model is not None and not self.escalated

    @property
    def stale(self) -> bool:
        """True if the last two passes of the current model had the same confidence, and it was not high."""
        last = self.confidence[-_STALE:]
        return len(last) == _STALE and last[0] == last[1] != "high"

    def escalate(self, reason: str) -> None:
        """Let the escalation model take over; only its own passes count as stale from now on."""
        self.escalated = reason
        self.confidence = []


@record
class LoopPosition:
    """The values that the exit conditions compare: state, configuration, and what the run has spent."""

    state: WorkerState
    config: LoopConfig
    tokens: int
    cost: Decimal


EXIT_CONDITIONS: dict[str, Callable[[LoopPosition], bool]] = {
    "max_passes": lambda at: at.state.passes >= at.config.max_passes,
    "token_budget": lambda at: at.tokens >= at.config.token_budget,
    "budget_exceeded": lambda at: at.cost >= at.config.cost_budget,
    "stale_confidence": lambda at: at.state.stale and not at.state.can_escalate(at.config),
    "all_tools_duplicate": lambda at: at.state.only_repeated,
    "no_tools": lambda at: at.state.idle >= MOST_IDLE,
}
"""The conditions that end the loop before a pass, in the order in which they are checked."""


def exit_reason(at: LoopPosition) -> str | None:
    """Return the code of the first condition that is met; None if the loop continues."""
    return next((code for code, is_met in EXIT_CONDITIONS.items() if is_met(at)), None)
