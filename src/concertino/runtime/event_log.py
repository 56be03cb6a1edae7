"""The numbered events of one run, for any number of readers, including readers that reconnect."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator

from ..events import ReasoningDelta, RunEvent, TextDelta, ToolCallDelta, ToolStreamed, TurnCompleted

_PIECES = (TextDelta, ReasoningDelta, ToolCallDelta, ToolStreamed)


class EventLog:
    """Keeps events until the run is dropped.

    The pieces of an answer are kept until the answer is complete. A reader that comes later gets the answer instead, so
    the memory of a run follows its messages and not its deltas.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._events: list[RunEvent] = []
        self._number = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    def put(self, event: RunEvent) -> None:
        """Add *event*."""
        self._number += 1
        if isinstance(event, TurnCompleted):
            self._drop_pieces(event.run_id)
        self._numbers.append(self._number)
        self._events.append(event)
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """End the log: no event follows."""
        self._closed = True
        self._wake()

    async def read(self, after: int = 0) -> AsyncIterator[tuple[int, RunEvent]]:
        """Yield the events after number *after* with their numbers, as they happen, to the last."""
        loop = asyncio.get_running_loop()
        while True:
            index = bisect_right(self._numbers, after)
            while index < len(self._numbers):
                numbers, events = self._numbers, self._events
                after = numbers[index]
                yield after, events[index]
                # Pieces may have been dropped meanwhile, which moves the indexes but not the numbers.
                index = index + 1 if numbers is self._numbers else bisect_right(self._numbers, after)
            if self._closed:
                return
            waiter = loop.create_future()
            self._waiting.append(waiter)
            await waiter

    def _drop_pieces(self, run_id: str) -> None:
        kept = [
            (number, event)
            for number, event in zip(self._numbers, self._events, strict=True)
            if not (isinstance(event, _PIECES) and event.run_id == run_id)
        ]
        self._numbers = [number for number, _ in kept]
        self._events = [event for _, event in kept]

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
