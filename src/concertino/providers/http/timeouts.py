"""How long a provider may take: to be reached, between pieces of its answer, and in all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ...errors import ProviderTimeoutError

T = TypeVar("T")

CONNECT, SILENCE, WHOLE = 10.0, 300.0, 3600.0
"""The limits that hold where none are set. Reasoning models are silent long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits in seconds. Their ends are `ProviderTimeoutError`s, whose `limit` names the one that was reached."""

    connect: float = CONNECT
    """Until a connection stands. A client of one's own keeps the limit that it was made with."""
    delta: float = SILENCE
    """Without a byte: before the answer begins, and between its pieces."""
    total: float | None = WHOLE
    """From the request to the end of its answer."""


def timeouts(given: float | Timeouts) -> Timeouts:
    """*given*, or the limits whose longest silence it is."""
    return given if isinstance(given, Timeouts) else Timeouts(connect=min(CONNECT, given), delta=given)


class Watch:
    """Keeps the limits of one request."""

    __slots__ = ("_end", "_limits", "_loop", "_provider")

    def __init__(self, limits: Timeouts, provider: str) -> None:
        self._limits = limits
        self._provider = provider
        self._loop = asyncio.get_running_loop()
        self._end = None if limits.total is None else self._loop.time() + limits.total

    async def over(self, step: Awaitable[T], *, begun: bool) -> T:
        """What *step* gives. Raises `ProviderTimeoutError` if a limit is reached first."""
        silence = self._limits.delta if begun else self._limits.delta + self._limits.connect
        until = self._loop.time() + silence
        last = self._end is not None and self._end < until
        limit = asyncio.timeout_at(self._end if last else until)
        try:
            async with limit:
                return await step
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._error("total" if last else "delta", begun=begun) from None

    def _error(self, limit: Literal["delta", "total"], *, begun: bool) -> ProviderTimeoutError:
        if limit == "total":
            words = f"did not end its answer within {self._limits.total:g} s (the limit `total`)"
        elif begun:
            words = f"fell silent in its answer for {self._limits.delta:g} s (the limit `delta`)"
        else:
            words = f"took the request and said nothing for {self._limits.delta:g} s (the limit `delta`)"
        error = ProviderTimeoutError(f"{self._provider} {words}", provider=self._provider)
        error.limit = limit
        return error
