"""The mailbox: where everything that happens side by side becomes one stream, in the order of happening."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from ..errors import ToolError
from ..events import RunEvent

_AT_ONCE: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""Where Python can, work that never waits is done without a round through the event loop."""
_HIGH_WATER = 1_000


class Mailbox:
    """Collects the events of the tools, sub-agents or hooks that are at work, for the one consumer of the run.

    mailbox.start(work)
    try:
        while (event := await mailbox.next()) is not None:
            yield event
    finally:
        await mailbox.stop(patience)
    """

    __slots__ = (
        "_behind",
        "_closed",
        "_error",
        "_events",
        "_fresh",
        "_left",
        "_loop",
        "_read",
        "_tasks",
        "_thread",
        "_waiter",
        "_work",
    )

    def __init__(self) -> None:
        self._events: deque[RunEvent] = deque()
        self._work: list[Coroutine[Any, Any, None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._behind: set[asyncio.Task[None] | None] = set()
        self._closed = False
        self._left = 0
        self._fresh = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._read: asyncio.Event | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self._closed

    def put(self, event: RunEvent) -> None:
        """Add *event*, from any thread. After `close` nobody reads it any more, and it is dropped."""
        if self._closed:
            return
        if threading.get_ident() == self._thread:
            self._events.append(event)
            if self._waiter is not None:
                self._wake()
        else:
            self._loop.call_soon_threadsafe(self.put, event)

    async def deliver(self, event: RunEvent) -> None:
        """Add *event*, and wait if the consumer is far behind: a sub-agent must not fill the memory.

        Raises `ToolError` after `close`: who is still at work then was left behind by a tool.
        """
        if self._closed:
            raise ToolError("the run that this sub-agent belongs to has ended")
        self._events.append(event)
        self._wake()
        if len(self._events) > _HIGH_WATER:
            if self._read is None:
                self._read = asyncio.Event()
            self._read.clear()
            await self._read.wait()

    def start(self, work: Iterable[Coroutine[Any, Any, None]]) -> list[asyncio.Task[None]]:
        """Begin to do all of *work* side by side, and beside what is being done already."""
        if not self._left:
            self._tasks, self._work = [], []
        parts = list(work)
        self._left += len(parts)
        tasks = [asyncio.Task(self._watched(part), loop=self._loop, **_AT_ONCE) for part in parts]
        self._work += parts
        self._tasks += tasks
        self._fresh = True
        return tasks

    async def next(self) -> RunEvent | None:
        """The next event; None when all work is done and everything has been read.

        Raises the first error of the work, once what happened before it has been read.
        """
        while not self._events:
            if self._error is not None:
                raise self._error
            if not self._left:
                return None
            if self._fresh:  # most work is done in its first go, and this is the shortest way to give it one
                self._fresh = False
                await asyncio.sleep(0)
                continue
            self._waiter = self._loop.create_future()
            await self._waiter
        event = self._events.popleft()
        if self._read is not None and len(self._events) <= _HIGH_WATER // 2:
            self._read.set()
        return event

    async def stop(self, patience: float) -> bool:
        """Cancel the work that is not done, and wait until it has ended, for *patience* seconds at most.

        Whether it has: what has not is left behind.
        """
        pending: set[asyncio.Task[None]] = set()
        running = [task for task in self._tasks if not task.done()] if self._left else []
        for task in running:
            task.cancel()
        if running:
            _, pending = await asyncio.wait(running, timeout=patience)
            self._behind.update(pending)
            for part in self._work:
                if inspect.getcoroutinestate(part) == inspect.CORO_CREATED:
                    part.close()  # cancelled before it had its first go
        self._tasks, self._work, self._left, self._error = [], [], 0, None
        return not pending

    def leave(self, task: asyncio.Task[None]) -> None:
        """Wait for *task* no longer: it does not end."""
        self._behind.add(task)
        self._done()

    def drain(self) -> Sequence[RunEvent]:
        """Everything that has not been read, taken out."""
        if not self._events:
            return ()
        events = list(self._events)
        self._events.clear()
        if self._read is not None:
            self._read.set()
        return events

    def close(self) -> None:
        """The run is over: what is in the box may still be drained, and nothing is added."""
        self._closed = True
        if self._read is not None:
            self._read.set()

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        error: BaseException | None = None
        try:
            await work
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - it is raised again, to the one who reads
            error = raised
        finally:
            if not self._behind or asyncio.current_task() not in self._behind:
                self._error = self._error or error
                self._done()

    def _done(self) -> None:
        self._left -= 1
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
