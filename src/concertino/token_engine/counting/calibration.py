"""Calibration: the ratio of a provider's billed tokens to the counter's tokens, learnt from usage figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .sizes import DATA, FOREIGN, KINDS, PROSE

_RATE = 0.5
"""Share of an error corrected at once: normalised least mean squares (Haykin, Adaptive Filter Theory)."""
_LEAST, _MOST = 0.4, 2.5
"""Bounds of a factor. No two tokenizers differ more on ordinary text; a larger difference has another cause."""
_MARGIN, _MARGIN_EXACT = 0.1, 0.02
"""Safety margin for an estimate, and for a count with the model's own tokenizer, which omits what the provider adds."""
_AFTER_REJECTION = 0.75
"""Share of a rejected request's tokens that the next attempt may have."""
_ENOUGH = 64
"""Added tokens below which a usage figure teaches nothing."""


class Calibration:
    """One model's factors by kind of text: billed tokens per counted token."""

    __slots__ = ("factors",)

    def __init__(self) -> None:
        self.factors = [1.0] * KINDS

    def estimate(self, by_kind: Sequence[int]) -> float:
        """Return the provider's tokens for the counted tokens *by_kind*."""
        prose, data, foreign = self.factors
        return prose * by_kind[PROSE] + data * by_kind[DATA] + foreign * by_kind[FOREIGN]

    def learn(self, by_kind: Sequence[int], measured: float) -> None:
        """Adjust the factors: the provider billed *measured* tokens for the counted tokens *by_kind*."""
        total = sum(by_kind)
        if total < _ENOUGH or measured <= 0 or min(by_kind) < 0:
            return
        error = measured - self.estimate(by_kind)
        power = sum([tokens * tokens for tokens in by_kind])
        for kind, tokens in enumerate(by_kind):
            factor = self.factors[kind] + _RATE * error * tokens / power
            self.factors[kind] = min(max(factor, _LEAST), _MOST)


class Gauge:
    """A request's size: the provider's figure for the last request plus an estimate of the change since.

    Sizes are counted tokens by kind. The fixed parts of a request are included in the provider's figure.
    """

    __slots__ = ("_at", "_calibration", "_exact", "_fixed", "_margin", "_measured", "_rejected")

    def __init__(self, calibration: Calibration, *, exact: bool) -> None:
        self._calibration = calibration
        self._exact = exact
        self._margin = _MARGIN_EXACT if exact else _MARGIN
        self._measured: float | None = None
        self._rejected = math.inf
        self._at: list[int] = [0] * KINDS
        self._fixed = 0

    def read(self, by_kind: Sequence[int], fixed: int) -> tuple[float, int]:
        """Return the tokens of a request with *fixed* counted tokens of fixed parts, and how many are estimated."""
        if self._measured is None:
            return self._calibration.estimate(by_kind) + fixed, sum(by_kind)
        then = self._at
        changed = (by_kind[PROSE] - then[PROSE], by_kind[DATA] - then[DATA], by_kind[FOREIGN] - then[FOREIGN])
        tokens = self._measured + self._calibration.estimate(changed) + fixed - self._fixed
        return tokens, abs(changed[PROSE]) + abs(changed[DATA]) + abs(changed[FOREIGN])

    def budget(self, by_kind: Sequence[int], fixed: int, most: float) -> int:
        """Return how many counted tokens a view may have in a request of *most* billed tokens.

        *by_kind* is the current view. Growth is estimated with a safety margin. A reduction removes estimated tokens
        first, together with their margin, and measured tokens after them.
        """
        total, margin = sum(by_kind), self._margin
        most = min(most, self._rejected)
        used, estimated = self.read(by_kind, fixed)
        factor = self._calibration.estimate(by_kind) / total if total else max(self._calibration.factors)
        left = most - used - margin * estimated
        doubtful = max(total - sum(self._at), 0) * (factor + margin)
        if left >= -doubtful:
            budget = int(total + left / (factor + margin))
        else:
            budget = int(total + (left + doubtful) / (factor - margin) - doubtful / (factor + margin))
        return min(budget, int(most - fixed)) if self._exact else budget

    def rejected(self, by_kind: Sequence[int], fixed: int) -> None:
        """Record that the provider rejected a request of these sizes as too long.

        Either its window is smaller than configured or its tokens are more than estimated; both lower the budget.
        """
        self._rejected = _AFTER_REJECTION * self.read(by_kind, fixed)[0]

    def observe(self, by_kind: Sequence[int], fixed: int, measured: int, *, grown: bool) -> None:
        """Record that the provider billed *measured* tokens for a request of these sizes.

        *grown*: the request extends the last one unchanged, so the difference calibrates the factors.
        """
        ours = self._calibration.estimate(by_kind) + fixed
        if not _LEAST * ours <= measured <= _MOST * ours:
            return  # the figure covers something else
        if grown and self._measured is not None and fixed == self._fixed:
            new = [now - then for now, then in zip(by_kind, self._at, strict=True)]
            self._calibration.learn(new, measured - self._measured)
        self._measured, self._at, self._fixed = measured, list(by_kind), fixed
