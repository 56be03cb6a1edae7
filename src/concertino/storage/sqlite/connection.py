"""Connections: a thread that owns one, so that the event loop never waits for the disk, and one in memory."""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

from ...errors import StorageError
from .batch import Outcome, commit, commit_one, outcome_of
from .schema import IN_MEMORY, connect, connect_in_memory, connect_read_only
from .statements import Write
from .watermark import Watermark

T = TypeVar("T")

MAX_BATCH = 256
"""Most writes in one transaction, so that none of them waits for many others."""


class Job(NamedTuple):
    """A call that waits for the connection."""

    work: Callable[[], Any] | Write[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class StoreConnection(Protocol):
    """Runs work on a store's connection."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of *work*. Raises `StorageError` if SQLite failed or the store is closed."""
        ...

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write* after its commit. Raises `StorageError` as `run` does."""
        ...

    async def close(self) -> None:
        """Finish pending work, then close the connection. Closing twice is allowed."""
        ...


class ThreadConnection:
    """A connection in a thread of its own, which does the work in the order of the calls.

    Work is done as a whole even if its caller is cancelled. A call costs one hop to the thread and one back, without an
    executor's futures and locks in between. Writes that wait together are committed, and their callers woken, together.
    """

    def __init__(self, path: Path, busy_timeout: float, *, read_only: bool = False) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._watermark = None if read_only else Watermark(path)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A daemon, so that an unclosed store does not block the interpreter's exit; `atexit` waits for its work.
        self._thread = threading.Thread(target=self._work, name="concertino-sqlite", daemon=True)
        self._lock = threading.Lock()
        self._closing = False
        self._closed: Future[None] = Future()
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Connect. Raises `StorageError`, and is closed then."""
        self._thread.start()
        atexit.register(self._stop)
        try:
            await self._submit(self._open)
        except BaseException:
            self._begin_closing()
            raise

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of *work*. Raises `StorageError` if SQLite failed or the store is closed."""
        return await self._submit(lambda: work(self._opened()))  # type: ignore[no-any-return]

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write* after its commit. Raises `StorageError` as `run` does."""
        return await self._submit(write)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Finish pending work, then close the connection. Closing twice is allowed."""
        self._begin_closing()
        await asyncio.shield(asyncio.wrap_future(self._closed))

    def _submit(self, work: Callable[[], Any] | Write[Any]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._closing:
                raise StorageError(f"the store of {self.path} is closed: open it again")
            self._jobs.put(Job(work, future, loop))
        return future

    def _begin_closing(self) -> None:
        with self._lock:
            if not self._closing:
                self._closing = True
                self._jobs.put(None)
        atexit.unregister(self._stop)

    def _stop(self) -> None:
        self._begin_closing()
        self._thread.join()

    def _work(self) -> None:
        for jobs in self._batches():
            _deliver(jobs, self._outcomes([job.work for job in jobs]))
            del jobs  # a waiting thread must not keep them alive
        if self._connection is not None:
            self._connection.close()
        if self._watermark is not None:
            self._watermark.close()
        self._closed.set_result(None)

    def _batches(self) -> Iterator[list[Job]]:
        """Yield the jobs in their order: one by one, except that writes that wait already come together."""
        taken: list[Job | None] = []
        while (job := taken.pop() if taken else self._jobs.get()) is not None:
            jobs = [job]
            while isinstance(job.work, Write) and not taken and len(jobs) < MAX_BATCH and not self._jobs.empty():
                following = self._jobs.get()
                if following is not None and isinstance(following.work, Write):
                    jobs.append(following)
                else:
                    taken.append(following)
            yield jobs
            del job, jobs

    def _outcomes(self, works: list[Any]) -> list[Outcome]:
        if not isinstance(works[0], Write):
            return [outcome_of(works[0], self.path)]
        try:
            connection = self._opened()
        except StorageError as error:
            return [(None, error)] * len(works)
        outcomes = commit(connection, works, self.path)
        if self._watermark is not None:
            committed = [write.entry for write, (_, error) in zip(works, outcomes, strict=True) if error is None]
            self._watermark.advance(max(committed, default=0))
        return outcomes

    def _open(self) -> None:
        if self._watermark is None:
            self._connection = connect_read_only(self.path, self._busy_timeout)
        else:
            self._connection = connect(self.path, self._busy_timeout)
            self._watermark.open(self._connection)

    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None, "open() has returned"
        if self._watermark is not None:
            self._watermark.check_files()
        return self._connection


class InlineConnection:
    """A connection to a database in memory, created at the first use, that works in the caller's thread."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of *work*. Raises `StorageError` if SQLite failed."""
        with self._lock:
            if self._connection is None:
                self._connection = connect_in_memory()
                weakref.finalize(self, self._connection.close)
            result, error = outcome_of(partial(work, self._connection), IN_MEMORY)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write*. Raises `StorageError` as `run` does."""
        return await self.run(lambda connection: commit_one(connection, write))

    async def close(self) -> None:
        """Do nothing: the content stays readable as long as the store exists."""


def _deliver(jobs: list[Job], outcomes: list[Outcome]) -> None:
    """Set the futures of *jobs*, with one wake-up per event loop."""
    for loop, group in groupby(zip(jobs, outcomes, strict=True), key=lambda pair: pair[0].loop):
        with suppress(RuntimeError):  # the loop is closed, and so are its callers
            loop.call_soon_threadsafe(_set_results, [(job.future, *outcome) for job, outcome in group])


def _set_results(outcomes: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue  # the caller was cancelled
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
