"""Figures that the runs of a process share."""

from __future__ import annotations

from collections.abc import Mapping

from .base import TokenCounter

_MOST_TEXTS = 64
"""Fixed texts whose counts are kept; the oldest is dropped first."""


class TokenStatistics:
    """Token counts of fixed texts, and the ratio of billed to counted tokens by model and counter."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self.ratios: dict[tuple[str, str], float] = {}
        """By model and name of the counter: the ratio of the last request with a plausible figure."""

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
