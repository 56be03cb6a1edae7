"""Calibration: how far a counter's tokens are from those that a provider bills, learnt from its own figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .sizes import DATA, FOREIGN, KINDS, PROSE

_RATE = 0.5
"""How much of an error is corrected at once: normalised least mean squares (Haykin, Adaptive Filter Theory)."""
_LEAST, _MOST = 0.4, 2.5
"""No tokenizer is further from another on ordinary text; beyond that it was something else that changed the figure."""
_UNSURE, _UNSURE_EXACT = 0.1, 0.02
"""How much an estimate may be too low, and a count with the model's own tokenizer: of what the provider adds."""
_LESS = 0.75
"""How much of a request that was too long is tried next."""
_ENOUGH = 64
"""Tokens that must have been added for a figure to teach anything."""


class Calibration:
    """The factors of one model, by kind of text: what its provider counts for a token of ours."""

    __slots__ = ("factors",)

    def __init__(self) -> None:
        self.factors = [1.0] * KINDS

    def estimate(self, by_kind: Sequence[int]) -> float:
        """The provider's tokens for ours."""
        prose, data, foreign = self.factors
        return prose * by_kind[PROSE] + data * by_kind[DATA] + foreign * by_kind[FOREIGN]

    def learn(self, by_kind: Sequence[int], measured: float) -> None:
        """*measured* is what the provider counted for text of ours of these sizes."""
        total = sum(by_kind)
        if total < _ENOUGH or measured <= 0 or min(by_kind) < 0:
            return
        error = measured - self.estimate(by_kind)
        power = sum([tokens * tokens for tokens in by_kind])
        for kind, tokens in enumerate(by_kind):
            factor = self.factors[kind] + _RATE * error * tokens / power
            self.factors[kind] = min(max(factor, _LEAST), _MOST)


class Gauge:
    """How large a request is: the provider's figure for the last one, and an estimate of what has changed since.

    All sizes are `by_kind` sums of what is shown; what goes along with every request is in the anchor.
    """

    __slots__ = ("_at", "_calibration", "_exact", "_fixed", "_measured", "_taken", "_unsure")

    def __init__(self, calibration: Calibration, *, exact: bool) -> None:
        self._calibration = calibration
        self._exact = exact
        self._unsure = _UNSURE_EXACT if exact else _UNSURE
        self._measured: float | None = None
        self._taken = math.inf
        self._at: list[int] = [0] * KINDS
        self._fixed = 0

    def read(self, by_kind: Sequence[int], fixed: int) -> tuple[float, int]:
        """The tokens of a request, *fixed* of ours for system prompt and tools included; and how many of them are only
        estimated."""
        if self._measured is None:
            return self._calibration.estimate(by_kind) + fixed, sum(by_kind)
        then = self._at
        changed = (by_kind[PROSE] - then[PROSE], by_kind[DATA] - then[DATA], by_kind[FOREIGN] - then[FOREIGN])
        tokens = self._measured + self._calibration.estimate(changed) + fixed - self._fixed
        return tokens, abs(changed[PROSE]) + abs(changed[DATA]) + abs(changed[FOREIGN])

    def room(self, by_kind: Sequence[int], fixed: int, most: float) -> int:
        """How many tokens of ours may be shown in a request of *most* tokens, where *by_kind* are shown now.

        What is added is estimated, and so is what is taken from what was measured; what is taken from what was only
        estimated takes its doubt along.
        """
        total, unsure = sum(by_kind), self._unsure
        most = min(most, self._taken)
        used, estimated = self.read(by_kind, fixed)
        factor = self._calibration.estimate(by_kind) / total if total else max(self._calibration.factors)
        left = most - used - unsure * estimated
        doubtful = max(total - sum(self._at), 0) * (factor + unsure)  # it can go before what was measured has to
        if left >= -doubtful:
            room = int(total + left / (factor + unsure))
        else:
            room = int(total + (left + doubtful) / (factor - unsure) - doubtful / (factor + unsure))
        return min(room, int(most - fixed)) if self._exact else room

    def refused(self, by_kind: Sequence[int], fixed: int) -> None:
        """The provider has refused a request of these sizes as too long: either the tokens are more than they seem, or
        its window is smaller."""
        self._taken = _LESS * self.read(by_kind, fixed)[0]

    def observe(self, by_kind: Sequence[int], fixed: int, measured: int, *, grown: bool) -> None:
        """The provider counted *measured* tokens for a request of these sizes. *grown*: it has only grown since the
        last one, so that the difference teaches something."""
        ours = self._calibration.estimate(by_kind) + fixed
        if not _LEAST * ours <= measured <= _MOST * ours:
            return  # it is about something else
        if grown and self._measured is not None and fixed == self._fixed:
            new = [now - then for now, then in zip(by_kind, self._at, strict=True)]
            self._calibration.learn(new, measured - self._measured)
        self._measured, self._at, self._fixed = measured, list(by_kind), fixed


_OF_MODELS: dict[tuple[str, str], Calibration] = {}


def calibration_of(model: str, counter: str) -> Calibration:
    """What this process has learnt of *model*'s tokens as *counter* counts them; runs share it."""
    return _OF_MODELS.setdefault((model, counter), Calibration())
