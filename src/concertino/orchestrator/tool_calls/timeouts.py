"""Timeouts of tool calls, hooks and runs, at the cost of one dictionary entry each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic


class Deadlines:
    """Calls back for whatever is not done in time.

    One timer serves all entries and stays armed from one to the next: a timer per tool call would cost more than
    everything else that a short tool needs.
    """

    __slots__ = ("_loop", "_next", "_open", "_timer")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[object, tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def add(self, key: object, seconds: float, expire: Callable[[], None]) -> None:
        """Call *expire* after *seconds*, unless *key* is removed first."""
        when = monotonic() + seconds
        self._open[key] = (when, expire)
        if self._timer is None or when < self._next:
            self._arm(when)

    def remove(self, key: object) -> None:
        """Remove *key*, which is done."""
        self._open.pop(key, None)

    def close(self) -> None:
        """Remove everything."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = when
        self._timer = self._loop.call_later(when - monotonic(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = monotonic()
        for key in [key for key, (when, _) in self._open.items() if when <= now]:
            _, expire = self._open.pop(key)
            expire()
        if self._open:
            self._arm(min(when for when, _ in self._open.values()))


_SHARED: dict[asyncio.AbstractEventLoop, Deadlines] = {}


def shared_deadlines() -> Deadlines:
    """Return the deadlines that all runs of the running event loop share, for what nearly always is done in time."""
    loop = asyncio.get_running_loop()
    found = _SHARED.get(loop)
    if found is None:
        for closed in [each for each in _SHARED if each.is_closed()]:
            del _SHARED[closed]
        found = _SHARED[loop] = Deadlines()
    return found
