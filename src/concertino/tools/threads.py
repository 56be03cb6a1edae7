"""Threads for blocking tools: as many as a turn needs, and none of them keeps the process from ending."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

_IDLE_SECONDS = 10.0
_Job = Callable[[], None]


class DaemonThreads:
    """Runs blocking functions side by side, each at once.

    The executor of the standard library has fewer threads than a wide turn has tools, and waits at exit for a
    function that hangs. These threads are made when none is idle, end when they have been idle for a while, and
    are daemons.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call *function* in a thread, with this task's context variables.

        If the caller is cancelled the thread goes on, for nothing can stop it, and its outcome is dropped.
        """
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
            except BaseException as raised:  # noqa: BLE001 - it is handed to the caller
                # A future cannot carry StopIteration.
                error = RuntimeError(repr(raised)) if isinstance(raised, StopIteration) else raised
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is waiting any more
                loop.call_soon_threadsafe(settle, result, error)

        self._submit(job)
        return await future

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
                fresh = False
            else:
                fresh = True
        self._jobs.put(job)
        if fresh:
            threading.Thread(target=self._work, daemon=True, name="concertino tool").start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle == 0 or not self._jobs.empty():
                        continue  # a job was promised to this thread in the meantime
                    self._idle -= 1
                return
            job()
            with self._lock:
                self._idle += 1


threads = DaemonThreads()
"""The threads of this process."""
