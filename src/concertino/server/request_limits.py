"""Limits of requests: sizes, rates and streams for each scope, and rates of addresses without a session."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

from ..number_checks import check_amount, check_whole
from ..records import record
from ..scope import Scope

_MOST_BUCKETS = 10_000
"""The keys whose rate is known. The longest idle one is forgotten first, because its bucket is the fullest."""


@record(kw_only=True)
class ServerLimits:
    """The limits of one process. Raises `ConfigurationError` if one is not above 0."""

    body_bytes: int = 8 * 2**20
    """The most bytes of a request's body; a `FileFolder` has its own limit."""
    body_seconds: float = 60.0
    """The most seconds until a body has arrived."""
    requests: int = 600
    """The most requests of a scope in `per_seconds`, also all at once."""
    refusals: int = 300
    """The most requests without a session from a client's address in `per_seconds`. Further requests are refused
    without authentication."""
    per_seconds: float = 60.0
    streams: int = 50
    """The most streams of events that a scope may have open."""
    stream_seconds: float = 3600.0
    """The most seconds of a stream. Afterwards, the client connects again, and is authenticated again."""

    def __post_init__(self) -> None:
        for name in ("body_bytes", "requests", "refusals", "streams"):
            check_whole("ServerLimits", name, getattr(self, name))
        for name in ("body_seconds", "per_seconds", "stream_seconds"):
            check_amount("ServerLimits", name, getattr(self, name), "seconds above 0")


class _Buckets:
    """The rates of keys, by the token bucket algorithm."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._rate = most / seconds
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key: the requests left, and when that was counted."""

    def check(self, key: str) -> None:
        """Raise `HTTPException` with status 429 if the key has no request left."""
        left = self._left(key, time.monotonic())
        if left < 1:
            raise _too_many("too many requests", math.ceil((1 - left) / self._rate))

    def take(self, key: str) -> None:
        """Count a request that `check` has allowed."""
        now = time.monotonic()
        left = self._left(key, now)
        self._known.pop(key, None)
        self._known[key] = (max(left - 1, 0.0), now)
        if len(self._known) > _MOST_BUCKETS:
            self._known.popitem(last=False)

    def _left(self, key: str, now: float) -> float:
        left, counted = self._known.get(key, (float(self._most), now))
        return min(left + (now - counted) * self._rate, self._most)


class RequestRates:
    """Counts the requests and streams of each scope, and the requests of each address that have no session."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._requests = _Buckets(limits.requests, limits.per_seconds)
        self._refusals = _Buckets(limits.refusals, limits.per_seconds)
        self._streams: Counter[str] = Counter()

    def take(self, scope: Scope) -> None:
        """Count a request. Raises `HTTPException` with status 429 if the scope has none left."""
        self._requests.check(scope.key)
        self._requests.take(scope.key)

    def check_address(self, address: str) -> None:
        """Raise `HTTPException` with status 429 if an address has sent too many requests without a session."""
        if address:
            self._refusals.check(_network(address))

    def refuse(self, address: str) -> None:
        """Count a request without a session. An address that is not known, as behind a socket file, has no limit."""
        if address:
            self._refusals.take(_network(address))

    @contextmanager
    def stream(self, scope: Scope) -> Iterator[None]:
        """Count a stream while the block runs. Raises `HTTPException` with status 429 if too many are open."""
        self.check_streams(scope)
        self._streams[scope.key] += 1
        try:
            yield
        finally:
            self._streams[scope.key] -= 1
            if not self._streams[scope.key]:
                del self._streams[scope.key]

    def check_streams(self, scope: Scope) -> None:
        """Raise `HTTPException` with status 429 if the scope may not open another stream."""
        if self._streams[scope.key] >= self.limits.streams:
            raise _too_many(f"{self.limits.streams} streams are open: close one", 1)


def _too_many(detail: str, seconds: int) -> HTTPException:
    return HTTPException(429, detail, {"Retry-After": str(seconds)})


def _network(address: str) -> str:
    """Return an address; of IPv6, the network of 64 bits, in which one client has all addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if found.version == 4 or found.ipv4_mapped else found.exploded[:19]
