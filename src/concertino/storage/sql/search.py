"""Ranking of texts by words, where the database cannot do it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log


@lru_cache(16)
def _spaced(words: str) -> list[bytes]:
    # The rarest word is probably the longest: most texts are done with after a look for it.
    return sorted((f" {word} ".encode() for word in words.split()), key=len, reverse=True)


def relevance(text: bytes, words: str) -> float | None:
    """Return the share of *words* in *text*, whose words are between spaces; None if it lacks one of them."""
    wanted = _spaced(words)
    return sum(map(text.count, wanted)) / len(text) if all(word in text for word in wanted) else None


def bm25(texts: Sequence[str], wanted: Sequence[str]) -> list[float]:
    """Return how well each of *texts* answers the words *wanted*; 0 without any. Words are between spaces."""
    sizes = [text.count(" ") for text in texts]
    usual = sum(sizes) / len(sizes) if sizes else 1.0
    scores = [0.0] * len(texts)
    for word in wanted:
        times = [text.count(f" {word} ") for text in texts]
        found = sum(map(bool, times))
        rare = log(1 + (len(texts) - found + 0.5) / (found + 0.5))
        for number, (many, size) in enumerate(zip(times, sizes, strict=True)):
            scores[number] += rare * 2.2 * many / (many + 0.3 + 0.9 * size / usual)
    return scores
