"""How a conversation was seen: what the next run of it needs to go on with the same view, and what all of it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any


@dataclass(slots=True)
class ContextState:
    """What the next run of a conversation needs to see it as the last one did. All of it is JSON."""

    edits: list[list[Any]] = field(default_factory=list, repr=False)
    """With places counted from the beginning of the history."""
    ready: list[list[Any]] = field(default_factory=list, repr=False)
    """Summaries that were made and are not in use yet."""
    at: float | None = None
    """When the last request was sent, in seconds since 1970."""
    model: str = ""
    """Which model it was sent to (`provider:name`)."""
    rent: tuple[float, float] = (0.0, 0.0)
    """What was paid so far for carrying what the next edits would take out, in tokens of uncached input."""


@dataclass(slots=True)
class ContextReport:
    """What a run's requests took, and what they would have taken had nothing been left out of them."""

    requests: int = 0
    prompt: int = 0
    """Tokens that were sent."""
    cached: int = 0
    """And of these, read from the cache."""
    written: int = 0
    """And written to it."""
    whole_prompt: int = 0
    """Tokens that would have been sent untrimmed; estimated from the share of the conversation that was not sent."""
    whole_cached: int = 0
    """And of these, read from a cache that holds as long as the provider says."""
    edits: int = 0
    summaries: int = 0
    summary_tokens: int = 0
    """Input and output of the requests that made them."""
    misses: int = 0
    """Requests for which the provider read less from its cache than it should have."""
    cost: Decimal | None = None
    """Of the input that was sent, in US dollars; None: its price is not known, or several models were asked."""
    whole_cost: Decimal | None = None
    """Of the input that would have been sent."""

    @property
    def hit_rate(self) -> float:
        """The share of all input that was read from the cache; 0.0 of none."""
        return self.cached / self.prompt if self.prompt else 0.0
