"""Stuck detection: an agent that repeats itself, only fails, or makes no progress, with the evidence."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from ..ids import digest
from ..number_checks import check_whole
from ..records import record

StuckKind = Literal["identical_calls", "ping_pong", "consecutive_errors", "no_progress"]
_SHOWN = 200


@record
class Stuck:
    """A pattern that shows that an agent makes no progress."""

    kind: StuckKind
    evidence: tuple[str, ...]
    """The calls, errors or turns that show it, the oldest first."""

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: " + "; ".join(self.evidence)


@record(frozen=False)
class StuckDetection:
    """Watches the calls and the progress of an agent. Make it a field of the agent's state, like `LivingDocument`.

    It decides nothing: `check` returns a pattern once, and the agent nudges, escalates or stops. A repeated call with
    another result counts as progress, so polling is not a pattern.
    """

    identical: int = 3
    """Equal calls with equal results in a row."""
    alternations: int = 3
    """Pairs of two calls that alternate with equal results."""
    errors: int = 4
    """Failed calls in a row."""
    idle: int = 12
    """Turns in a row in which the progress mark did not change."""
    calls: list[tuple[str, str, bool]] = field(default_factory=list)
    """The newest calls: a digest of call and result, a text for people, whether it failed."""
    mark: str = ""
    unchanged: int = 0

    def __post_init__(self) -> None:
        for name in ("identical", "alternations", "errors", "idle"):
            check_whole("StuckDetection", name, getattr(self, name), 2)

    def fresh(self) -> StuckDetection:
        """Return a new detection with the same thresholds."""
        return StuckDetection(self.identical, self.alternations, self.errors, self.idle)

    def observe(self, name: str, arguments: str, result: str, *, failed: bool) -> None:
        """Add a call with its result."""
        shown = f"{name} {arguments}"[:_SHOWN] + (f" failed: {result[:_SHOWN]}" if failed else "")
        self.calls.append((digest(f"{name}\0{arguments}\0{result}"), shown, failed))
        del self.calls[: -max(self.identical, 2 * self.alternations, self.errors)]

    def end_turn(self, mark: str) -> None:
        """Count a turn. *mark* stands for what the agent has achieved: its document, notes, plan or position."""
        self.unchanged = self.unchanged + 1 if mark == self.mark else 0
        self.mark = mark

    def check(self) -> Stuck | None:
        """Return the pattern that the newest calls and turns show, and forget it; None without one."""
        found = self._found()
        if found is not None:
            self.calls, self.unchanged = [], 0
        return found

    def _found(self) -> Stuck | None:
        ids = [key for key, _, _ in self.calls]
        last = ids[-self.identical :]
        if len(last) == self.identical and len(set(last)) == 1:
            return Stuck("identical_calls", tuple([shown for _, shown, _ in self.calls[-self.identical :]]))
        count = 2 * self.alternations
        pairs = ids[-count:]
        if len(pairs) == count and pairs[0] != pairs[1] and pairs == pairs[:2] * self.alternations:
            return Stuck("ping_pong", tuple([shown for _, shown, _ in self.calls[-count:]]))
        failed = self.calls[-self.errors :]
        if len(failed) == self.errors and all(each[2] for each in failed):
            return Stuck("consecutive_errors", tuple([shown for _, shown, _ in failed]))
        if self.unchanged >= self.idle:
            return Stuck("no_progress", (f"{self.unchanged} turns without progress", *[c[1] for c in self.calls[-3:]]))
        return None
