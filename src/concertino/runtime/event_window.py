"""The time for which events are collected, the same for all runs, so that the store commits them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS = 0.025
"""Most seconds for which an event waits."""


class EventWindow:
    """Calls what was added, together, when its time is over."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, call: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Let *call* be called at the end of the current window, by *loop*, which runs."""
        if not self._due or loop is not self._loop:  # a loop that was closed calls nothing
            self._loop = loop
            loop.call_later(SECONDS, self._end)
        self._due.append(call)

    def _end(self) -> None:
        due, self._due = self._due, []
        for call in due:
            call()
