"""Quotas of provider keys: the bucket of requests and tokens, and what processes that share one ask their store for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from .records import record
from .scope import Operator

SLICE = 1.0
"""Seconds for which a process draws on a shared quota in advance."""
Rates = tuple[float | None, float | None]
"""Requests and tokens per minute; None for no limit."""


@record(kw_only=True)
class QuotaDemand:
    """A process's part of an exchange: what it needs for the next slice, and what it reports."""

    key: str
    """The name of the quota."""
    owner: str
    """The name of the asker: one rate limit of one process."""
    rates: Rates
    waiting: tuple[int, ...] = ()
    """Most tokens of each request that waits, in order."""
    expected: tuple[int, ...] = ()
    """Most tokens of requests that may arrive within the slice."""
    tenants: tuple[str, ...] = ()
    """Names of the tenants whose requests wait."""
    unused: tuple[int, int] = (0, 0)
    """Requests and tokens of the last grant that are handed back."""
    correction: int = 0
    """Tokens by which estimates of admitted requests exceeded their usage; negative if they were too small."""
    pauses: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the provider has asked to wait, by model; "" for the whole key."""


@record(kw_only=True)
class QuotaGrant:
    """A store's part of an exchange."""

    requests: int = 0
    """Number of requests that may be sent within a slice: the first ones of `waiting`, then of `expected`."""
    tokens: int = 0
    """Most tokens of these together."""
    wait: float = 0.0
    """Seconds after which it is worth asking for the others."""
    pauses: Mapping[str, float] = field(default_factory=dict)
    """Seconds that are left of all pauses of the key."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each tenant among those of the asker, if it is not 1: less if it waits in other processes, too."""


class QuotaStore(Protocol):
    """Shares the quotas of provider keys among processes."""

    async def draw_quota(self, scope: Operator, demand: QuotaDemand) -> QuotaGrant:
        """Grant a process what it may use of a quota within a slice. Its last grant is void from then on.

        A grant is the process's alone; what it neither uses nor hands back within the slice is lost. Processes whose
        requests wait are served in turn, in proportion to the tenants that wait. The store's clock decides.
        """
        ...


class Bucket:
    """The requests and tokens that are available: refilled per minute, up to a burst of a tenth of a minute's.

    A request that is larger than the burst needs the full burst, and leaves a debt. A debt is at most a minute's:
    what a provider reports, such as a wrong usage, never closes a key for longer.
    """

    __slots__ = ("_bursts", "_rates", "available")

    def __init__(self, rates: Rates, available: tuple[float, float] | None = None) -> None:
        self._rates = rates
        self._bursts = tuple([0.0 if rate is None else max(rate / 10, 1.0) for rate in rates])
        self.available = list(self._bursts if available is None else available)

    def refill(self, seconds: float) -> None:
        """Add what becomes available in *seconds*."""
        self.add(*[0.0 if rate is None else rate * seconds / 60 for rate in self._rates])

    def empty(self) -> None:
        """Take away all that is available; a debt stays."""
        self.available = [min(amount, 0.0) for amount in self.available]

    def add(self, requests: float, tokens: float) -> None:
        """Add amounts, up to the burst; a negative amount is a debt."""
        for index, amount in enumerate((requests, tokens)):
            if (rate := self._rates[index]) is not None:
                self.available[index] = max(-rate, min(self._bursts[index], self.available[index] + amount))

    def take(self, tokens: float) -> None:
        """Take one request with *tokens*."""
        self.add(-1.0, -tokens)

    def delay(self, tokens: float, kept: tuple[float, float] = (0.0, 0.0)) -> float:
        """Return the seconds until a request with *tokens* can be taken so that *kept* is left."""
        delay = 0.0
        for index, needed in enumerate((1.0, float(tokens))):
            if (rate := self._rates[index]) is not None:
                missing = min(needed, self._bursts[index]) + kept[index] - self.available[index]
                if missing > 1e-9:
                    delay = max(delay, missing * 60 / rate)
        return delay

    def cost(self, tokens: float) -> float:
        """Return the part of a minute's quota that a request with *tokens* takes."""
        shares = [amount / rate for amount, rate in zip((1.0, tokens), self._rates, strict=True) if rate is not None]
        return max(shares, default=0.0)
