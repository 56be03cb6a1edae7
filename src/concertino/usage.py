"""Usage: what a provider bills, one record for each attempt. All totals are sums over records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

UsageSource = Literal["measured", "estimated", "unknown"]
"""Measured: the provider said it. Estimated: counted by us. Unknown: nobody can say; never written as zero."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of one attempt, brought to one meaning whatever the provider's own is."""

    prompt: int = 0
    """All input, the cached and the cache-written part included."""
    completion: int = 0
    """All output, reasoning included."""
    cached: int = 0
    """The part of `prompt` that was read from the provider's cache."""
    cache_write: int = 0
    """The part of `prompt` that was written to the provider's cache."""
    reasoning: int = 0
    """The part of `completion` that was reasoning."""
    cache_write_1h: int = 0
    """The part of `cache_write` that is kept for an hour, which costs more (Anthropic)."""

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            self.cache_write_1h + other.cache_write_1h,
        )

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """What one attempt at a model, or one streaming tool, used."""

    id: str
    """Deterministic: the same attempt always has the same id, so that it cannot be booked twice."""
    run_id: str
    agent_path: str
    provider: str
    model: str
    """The model as served, or as asked for where the provider does not say."""
    tokens: Tokens
    source: UsageSource = "measured"
    how: str = ""
    """For an estimate: how it was made."""
    cost: Decimal | None = None
    """In US dollars; None where no price is known."""
    price_version: str = ""
    """Which price list `cost` was worked out by."""
    tools: tuple[str, ...] = ()
    """The tools that the model called in this turn, or the tool whose own stream this is."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A sum over records."""

    tokens: Tokens
    cost: Decimal | None
    """The sum of all costs; None as soon as one of them is unknown."""


def total(records: Iterable[UsageRecord]) -> Totals:
    """The sum over *records*; of none it is zero."""
    tokens, cost = Tokens(), Decimal(0)
    priced = True
    for record in records:
        tokens += record.tokens
        if record.cost is None:
            priced = False
        else:
            cost += record.cost
    return Totals(tokens, cost if priced else None)
