"""Daemon threads for blocking functions."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from anyio import CapacityLimiter, WouldBlock
from anyio.lowlevel import RunVar

MAX_THREADS = 256
"""Blocking functions that run at the same time in one event loop; further ones wait."""
_IDLE_SECONDS = 10.0
_Job = Callable[[], None]


async def run_in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a blocking function, called in a daemon thread with the caller's context variables.

    Cancelling the caller abandons the call: the thread runs to its end, and its result is discarded.
    """
    try:
        pool = _pool.get()
    except LookupError:
        pool = DaemonThreads()
        _pool.set(pool)
    return await pool.run(function, *args, **kwargs)


class DaemonThreads:
    """The threads of one event loop.

    They replace `anyio.to_thread`, whose threads are not daemons: a blocking call cannot be stopped, and a tool that
    hangs would keep the process from exiting. A thread starts when no other is idle and ends after some idle seconds.
    """

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self._limiter = CapacityLimiter(limit)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run *function* as `run_in_thread` does."""
        borrower = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(borrower)  # `async with` would take a pass through the event loop
        except WouldBlock:
            await self._limiter.acquire_on_behalf_of(borrower)
        try:
            return await self._run(function, *args, **kwargs)
        finally:
            self._limiter.release_on_behalf_of(borrower)

    async def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: Any, error: BaseException | None) -> None:
            if not future.done():
                future.set_exception(error) if error is not None else future.set_result(result)

        def job() -> None:
            result, error = None, None
            try:
                result = context.run(function, *args, **kwargs)
            except BaseException as raised:  # noqa: BLE001 - raised again in the caller
                # A future cannot carry StopIteration.
                error = RuntimeError(repr(raised)) if isinstance(raised, StopIteration) else raised
            with contextlib.suppress(RuntimeError):  # the loop is closed, so the caller has ended
                loop.call_soon_threadsafe(settle, result, error)

        self._submit(job)
        return await future

    def _submit(self, job: _Job) -> None:
        with self._lock:
            start = self._idle == 0
            if not start:
                self._idle -= 1
        self._jobs.put(job)
        if start:
            threading.Thread(target=self._work, daemon=True, name="concertino tool").start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    # `_submit` may have counted on this thread between the timeout and the lock.
                    if self._idle == 0 or not self._jobs.empty():
                        continue
                    self._idle -= 1
                return
            job()
            with self._lock:
                self._idle += 1


_pool: RunVar[DaemonThreads] = RunVar("concertino.tools.threads")
