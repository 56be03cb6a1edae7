"""Confidence intervals of a mean, at 95 %."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from random import Random

from ..records import record

Z = 1.959963984540054
"""The 0.975 quantile of the standard normal distribution."""
RESAMPLES = 2_000


@record
class Interval:
    """A confidence interval."""

    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value."""
    return sum(values) / len(values)


def interval(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the interval of the mean of independent *values*: `wilson` if all are 0 or 1, else `bootstrap`."""
    if all(value in (0.0, 1.0) for value in values):
        return wilson(int(sum(values)), len(values))
    return bootstrap(values, seed)


def wilson(successes: int, count: int) -> Interval:
    """Return the score interval of a proportion (Wilson, 1927), without a correction for continuity.

    It stays within 0 and 1, and covers well for few cases and for proportions near the ends (Brown, Cai and DasGupta,
    "Interval Estimation for a Binomial Proportion", 2001).
    """
    share, square = successes / count, Z * Z / count
    middle, half = share + square / 2, Z * sqrt(share * (1 - share) / count + square / (4 * count))
    low, high = (middle - half) / (1 + square), (middle + half) / (1 + square)
    return Interval(max(low, 0.0) if successes else 0.0, min(high, 1.0) if successes < count else 1.0)


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the percentile interval of the mean (Efron, 1979), from resamples that *seed* determines.

    It is too narrow for fewer than about ten values.
    """
    random, count = Random(seed), len(values)  # noqa: S311 - statistics
    resampled = sorted(sum(random.choices(values, k=count)) / count for _ in range(RESAMPLES))
    cut = RESAMPLES * 25 // 1_000
    return Interval(resampled[cut], resampled[-cut - 1])
