"""The events of one run, numbered, for as many readers as there are, and for those who come back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from ..events import ReasoningDelta, RunEvent, TextDelta, ToolCallDelta, ToolStreamed, TurnCompleted

_PIECES = (TextDelta, ReasoningDelta, ToolCallDelta, ToolStreamed)


class Feed:
    """Keeps events until the run is forgotten. The pieces of an answer are kept until the answer is whole: who comes
    later reads that instead, and the memory that a run takes follows its messages, not its deltas."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, RunEvent]] = deque()
        self._number = 0
        self._news = asyncio.Event()
        self._closed = False

    def put(self, event: RunEvent) -> None:
        """Add *event*."""
        self._number += 1
        if isinstance(event, TurnCompleted):
            run_id = event.run_id
            kept = (e for e in self._events if not (isinstance(e[1], _PIECES) and e[1].run_id == run_id))
            self._events = deque(kept)
        self._events.append((self._number, event))
        self._wake()

    def close(self) -> None:
        """Nothing follows."""
        self._closed = True
        self._wake()

    async def read(self, after: int = 0) -> AsyncIterator[tuple[int, RunEvent]]:
        """Events with their numbers, from the one behind *after* to the last, as they come."""
        while True:
            for number, event in [item for item in self._events if item[0] > after]:
                after = number
                yield number, event
            if self._closed and after >= self._number:
                return
            if after >= self._number:
                news = self._news
                await news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
