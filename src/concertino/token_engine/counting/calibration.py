"""Calibration: the ratio of a provider's billed tokens to the counter's tokens, which runs learn and share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .base import TokenCounter
from .sizes import DATA, FOREIGN, KINDS, PROSE

_RATE = 0.5
"""Share of an error corrected at once: normalised least mean squares (Haykin, Adaptive Filter Theory)."""
LEAST_FACTOR, MOST_FACTOR = 0.4, 2.5
"""Bounds of a factor. No two tokenizers differ more on ordinary text; a larger difference has another cause."""
_ENOUGH = 64
"""Added tokens below which a usage figure teaches nothing."""
_MOST_TEXTS = 64
"""Fixed texts whose counts are kept; the oldest is dropped first."""


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
            self.factors[kind] = min(max(factor, LEAST_FACTOR), MOST_FACTOR)


class TokenStatistics:
    """Token counts of fixed texts and calibrations by model, shared by the runs of a process."""

    __slots__ = ("_calibrations", "_counts")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._calibrations: dict[tuple[str, str], Calibration] = {}

    def count(self, counter: TokenCounter, texts: Mapping[str, str]) -> dict[str, int]:
        """Return the tokens of each of *texts*, system prompts and tool lists that many runs send; count each once."""
        counts, found = self._counts, {}
        for name, text in texts.items():
            key = counter.name, text
            if key not in counts:
                while len(counts) >= _MOST_TEXTS:
                    del counts[next(iter(counts))]
                counts[key] = counter.count(text)
            found[name] = counts[key]
        return found

    def calibration(self, model: str, counter: TokenCounter) -> Calibration:
        """Return the calibration of *model* for texts counted with *counter*."""
        key = model, counter.name
        found = self._calibrations.get(key)
        if found is None:
            found = self._calibrations[key] = Calibration()
        return found
