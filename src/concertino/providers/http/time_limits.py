"""Time limits of a request: for connecting, between pieces of the answer, and in total."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

from ...errors import ProviderTimeoutError
from ...number_checks import check_amount
from ...records import record

T = TypeVar("T")

DEFAULT_CONNECT, DEFAULT_DELTA, DEFAULT_TOTAL = 10.0, 300.0, 3600.0
"""Reasoning models can be silent for minutes."""


@record(kw_only=True)
class Timeouts:
    """Limits in seconds. An expired limit raises `ProviderTimeoutError`, whose `limit` names it."""

    connect: float = DEFAULT_CONNECT
    """Until the connection is open. A client that the caller passes in keeps its own limit."""
    delta: float = DEFAULT_DELTA
    """Without a byte, before the answer begins and between its pieces."""
    total: float | None = DEFAULT_TOTAL
    """From the request to the end of its answer."""

    def __post_init__(self) -> None:
        for name in ("connect", "delta", "total"):
            check_amount("Timeouts", name, getattr(self, name), "seconds above 0", optional=name == "total")


def timeouts(value: float | Timeouts) -> Timeouts:
    """Return *value* as `Timeouts`; a number is the longest silence."""
    return value if isinstance(value, Timeouts) else Timeouts(connect=min(DEFAULT_CONNECT, value), delta=value)


class Deadline:
    """Enforce the limits of one request with one timer.

    `asyncio.timeout` would set and cancel a timer for every piece of an answer. This timer stays set and, when it
    fires, checks how long the current wait has lasted. Time between waits, which the consumer spends, does not count.
    """

    __slots__ = ("_begun", "_end", "_expired", "_limits", "_loop", "_provider", "_since", "_task", "_timer")

    def __init__(self, limits: Timeouts, provider: str) -> None:
        self._limits = limits
        self._provider = provider
        self._loop = asyncio.get_running_loop()
        self._end = None if limits.total is None else self._loop.time() + limits.total
        self._begun = False
        self._since: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expired: Literal["delta", "total"] | None = None

    async def wait(self, step: Awaitable[T], *, begun: bool) -> T:
        """Await *step*; *begun* is true once the answer's headers have arrived.

        Raises `ProviderTimeoutError` if a limit expires first.
        """
        task = self._task = asyncio.current_task()
        cancelling = task.cancelling() if task is not None else 0
        self._since = self._loop.time()
        if self._timer is None or begun is not self._begun:
            self._begun = begun
            self.close()
            self._arm()
        try:
            return await step
        except asyncio.CancelledError:
            # As in `asyncio.timeout`: a cancellation from outside that arrived as well takes precedence.
            if self._expired is None or task is None or task.uncancel() > cancelling:
                raise
            raise self._error(self._expired) from None
        finally:
            self._since = self._task = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> tuple[float, Literal["delta", "total"]]:
        silence = self._limits.delta if self._begun else self._limits.delta + self._limits.connect
        due = (self._loop.time() if self._since is None else self._since) + silence
        return (self._end, "total") if self._end is not None and self._end < due else (due, "delta")

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._due()[0], self._check)

    def _check(self) -> None:
        self._timer = None
        if self._since is None or self._task is None:  # the consumer has the turn; the next wait sets the timer again
            return
        due, limit = self._due()
        if self._loop.time() < due:
            self._arm()
            return
        self._expired = limit
        self._task.cancel()

    def _error(self, limit: Literal["delta", "total"]) -> ProviderTimeoutError:
        if limit == "total":
            problem = f"did not end its answer within {self._limits.total:g} s (the limit `total`)"
        elif self._begun:
            problem = f"fell silent in its answer for {self._limits.delta:g} s (the limit `delta`)"
        else:
            problem = f"accepted the request and sent nothing for {self._limits.delta:g} s (the limit `delta`)"
        error = ProviderTimeoutError(f"{self._provider} {problem}", provider=self._provider)
        error.limit = limit
        return error
