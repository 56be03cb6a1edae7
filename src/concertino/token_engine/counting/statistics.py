"""Counts that runs share: tokens of system prompts and tools, and calibrations by model."""

from __future__ import annotations

from collections.abc import Mapping

from .base import TokenCounter
from .calibration import Calibration

_MOST_TEXTS = 64
"""Fixed texts whose counts are kept; the oldest is dropped first."""


class TokenStatistics:
    """Token counts of fixed texts and calibrations by model, shared by the runs of a process."""

    __slots__ = ("_calibrations", "_counts")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._calibrations: dict[tuple[str, str], Calibration] = {}

    def count(self, counter: TokenCounter, text: str) -> int:
        """Return the tokens of *text*, a system prompt or tool list that many runs send; count it once."""
        key = counter.name, text
        tokens = self._counts.get(key)
        if tokens is None:
            while len(self._counts) >= _MOST_TEXTS:
                del self._counts[next(iter(self._counts))]
            tokens = self._counts[key] = counter.count(text)
        return tokens

    def calibration(self, model: str, counter: TokenCounter) -> Calibration:
        """Return the calibration of *model* for texts counted with *counter*."""
        key = model, counter.name
        found = self._calibrations.get(key)
        if found is None:
            found = self._calibrations[key] = Calibration()
        return found


class FixedParts:
    """The parts sent with every request, such as system prompt and tools, by name."""

    __slots__ = ("_counted", "_counter", "_statistics", "texts", "tokens")

    def __init__(self, counter: TokenCounter, statistics: TokenStatistics) -> None:
        self._counter = counter
        self._statistics = statistics
        self._counted: dict[str, tuple[str, int]] = {}
        self.texts: Mapping[str, str] = {}
        self.tokens = 0

    def update(self, texts: Mapping[str, str]) -> None:
        """Replace the parts by *texts*; an identical mapping object is assumed to be unchanged."""
        if texts is self.texts:
            return
        for name, text in texts.items():
            if name not in self._counted or self._counted[name][0] is not text:
                self._counted[name] = (text, self._statistics.count(self._counter, text))
        self.texts = texts
        self.tokens = sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """Return the tokens of each part by name."""
        return {name: self._counted[name][1] for name in self.texts}
