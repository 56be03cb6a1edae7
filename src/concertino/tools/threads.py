"""Daemon threads for blocking functions."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from anyio import CapacityLimiter, WouldBlock
from anyio.lowlevel import RunVar

from ..errors import ToolError, error_text

MAX_THREADS = 128
"""The most blocking functions that run at the same time in one event loop, for all its runs together; others wait."""
MAX_ABANDONED = 128
"""The most abandoned functions that continue without counting as one of `MAX_THREADS`."""
_IDLE_SECONDS = 10.0
_Job = Callable[[], None]


async def run_in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a blocking function, called in a daemon thread with the caller's context variables.

    Cancelling the caller abandons the call: a function that has not started never starts; a running one continues to
    its end, and its result is discarded. Raises an error of the function; a `ToolError` for a `BaseException`, such as
    `SystemExit`, which must not reach the event loop; and an error if no thread can be started.
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

    *limit* functions run at the same time. An abandoned function does not count, so that functions that hang do not
    starve the others; after *abandoned* of these, the next ones keep their slots. So there are at most *limit* +
    *abandoned* threads, and once abandoned functions keep every slot, calls fail at once instead of waiting for ever.
    """

    def __init__(self, limit: int = MAX_THREADS, abandoned: int = MAX_ABANDONED) -> None:
        self._limiter = CapacityLimiter(limit)
        self._spare = abandoned
        self._kept = 0
        """The number of slots that abandoned functions keep."""
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run *function* as `run_in_thread` does."""
        call = _ThreadCall(self._ended)
        try:
            self._limiter.acquire_on_behalf_of_nowait(call)  # `async with` would take a pass through the event loop
        except WouldBlock:
            if self._kept == self._limiter.total_tokens:
                raise ToolError(
                    "not run: every thread is busy with an abandoned function; give blocking functions a timeout of "
                    "their own, and restart this process"
                ) from None
            await self._limiter.acquire_on_behalf_of(call)
        try:
            self._submit(partial(call.perform, function, args, kwargs))
            return await call.future
        finally:
            if call.over or call.claim() or self._spared(call):
                self._limiter.release_on_behalf_of(call)

    def _spared(self, call: _ThreadCall) -> bool:
        """Abandon *call* and return whether it runs on without its slot."""
        call.abandoned = True
        call.spared = self._spare > 0
        if call.spared:
            self._spare -= 1
        else:
            self._kept += 1
        return call.spared

    def _ended(self, call: _ThreadCall) -> None:
        """Count the end of an abandoned call."""
        if call.spared:
            self._spare += 1
        else:
            self._kept -= 1
            self._limiter.release_on_behalf_of(call)

    def _submit(self, job: _Job) -> None:
        with self._lock:
            start = self._idle == 0
            if not start:
                self._idle -= 1
        if start:  # the job goes with its thread: if none can be started, nothing is queued that might run later
            threading.Thread(target=self._work, args=(job,), daemon=True, name="concertino tool").start()
        else:
            self._jobs.put(job)

    def _work(self, job: _Job) -> None:
        while True:
            job()
            del job  # an idle thread keeps no result alive
            with self._lock:
                self._idle += 1
            while True:
                try:
                    job = self._jobs.get(timeout=_IDLE_SECONDS)
                    break
                except Empty:
                    with self._lock:
                        # `_submit` may have counted on this thread between the timeout and the lock.
                        if self._idle == 0 or not self._jobs.empty():
                            continue
                        self._idle -= 1
                    return


class _ThreadCall:
    """A call of a blocking function. Either a thread claims and performs it, or its caller claims it first and goes."""

    __slots__ = ("_context", "_ended", "_loop", "_unclaimed", "abandoned", "future", "over", "spared")

    def __init__(self, ended: Callable[[_ThreadCall], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._unclaimed = [True]
        self._ended = ended
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.over = self.abandoned = self.spared = False

    def claim(self) -> bool:
        """Return whether this is the first claim: a function that its caller has claimed never begins."""
        try:
            return self._unclaimed.pop()  # atomic: it is called from the caller and from the thread
        except IndexError:
            return False

    def perform(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Call *function* in this thread, unless the caller has gone."""
        if not self.claim():
            return
        result, error = None, None
        try:
            result = self._context.run(function, *args, **kwargs)
        except Exception as raised:  # noqa: BLE001 - raised again in the caller
            # A future cannot carry StopIteration.
            error = RuntimeError(repr(raised)) if isinstance(raised, StopIteration) else raised
        except BaseException as raised:  # noqa: BLE001 - it must end neither the thread nor the event loop
            error = ToolError(error_text(raised))
        with contextlib.suppress(RuntimeError):  # the loop is closed, so the caller has ended
            self._loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: Exception | None) -> None:
        self.over = True
        if self.abandoned:
            self._ended(self)
        elif not self.future.done():
            self.future.set_exception(error) if error is not None else self.future.set_result(result)


_pool: RunVar[DaemonThreads] = RunVar("concertino.tools.threads")
