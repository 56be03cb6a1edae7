"""Limits of requests: sizes, and rates and streams for each scope."""

from __future__ import annotations

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
"""The scopes whose rate is known. The longest idle one is forgotten first, because its bucket is the fullest."""


@record(kw_only=True)
class ServerLimits:
    """The limits of one process. Raises `ConfigurationError` if one is not above 0."""

    body_bytes: int = 8 * 2**20
    """Most bytes of a request's body; a `FileFolder` has a limit of its own."""
    body_seconds: float = 60.0
    """Most seconds until a body has arrived."""
    requests: int = 600
    """Most requests of a scope in `per_seconds`, also all at once."""
    per_seconds: float = 60.0
    streams: int = 50
    """Most streams of events that a scope may have open."""
    stream_seconds: float = 3600.0
    """Most seconds of a stream: then the client connects again, and is authenticated again."""

    def __post_init__(self) -> None:
        for name in ("body_bytes", "requests", "streams"):
            check_whole("ServerLimits", name, getattr(self, name))
        for name in ("body_seconds", "per_seconds", "stream_seconds"):
            check_amount("ServerLimits", name, getattr(self, name), "seconds above 0")


class RequestRates:
    """Counts the requests and streams of each scope. The rate follows the token bucket algorithm."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By scope: the requests left, and when that was counted."""
        self._streams: Counter[str] = Counter()

    def take(self, scope: Scope) -> None:
        """Count a request. Raises `HTTPException` with status 429 if the scope has none left."""
        most, now = self.limits.requests, time.monotonic()
        left, counted = self._buckets.pop(scope.key, (float(most), now))
        rate = most / self.limits.per_seconds
        left = min(left + (now - counted) * rate, most)
        self._buckets[scope.key] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise _too_many("too many requests", math.ceil((1 - left) / rate))

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
