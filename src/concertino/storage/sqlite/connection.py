"""Connections: a thread that owns one, so that the event loop never waits for the disk, and one in memory."""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from ...errors import StorageError
from .errors import explain
from .schema import IN_MEMORY, connect, connect_in_memory

T = TypeVar("T")

Job = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class StoreConnection(Protocol):
    """Runs work on a store's connection."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of *work*. Raises `StorageError` if SQLite failed or the store is closed."""
        ...

    async def close(self) -> None:
        """Finish pending work, then close the connection. Closing twice is allowed."""
        ...


class ThreadConnection:
    """A connection in a thread of its own, which does the work in the order of the calls.

    Work is done as a whole even if its caller is cancelled. A job costs one hop to the thread and one back, without an
    executor's futures and locks in between.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A daemon, so that an unclosed store does not block the interpreter's exit; `atexit` waits for its work.
        self._thread = threading.Thread(target=self._work, name="concertino-sqlite", daemon=True)
        self._lock = threading.Lock()
        self._closing = False
        self._closed: Future[None] = Future()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

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

    async def close(self) -> None:
        """Finish pending work, then close the connection. Closing twice is allowed."""
        self._begin_closing()
        await asyncio.shield(asyncio.wrap_future(self._closed))

    def _submit(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._closing:
                raise StorageError(f"the store of {self.path} is closed: open it again")
            self._jobs.put((call, future, loop))
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
        while (job := self._jobs.get()) is not None:
            call, future, loop = job
            outcome = _outcome(call, self.path)
            with suppress(RuntimeError):  # the loop is closed, and so is the caller
                loop.call_soon_threadsafe(_deliver, future, *outcome)
            del job, call, future, loop, outcome  # a waiting thread must not keep them alive
        if self._connection is not None:
            self._connection.close()
        self._closed.set_result(None)

    def _open(self) -> None:
        self._connection = connect(self.path, self._busy_timeout)
        self._file = _identity(self.path)

    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None, "open() has returned"
        if _identity(self.path) != self._file:
            # SQLite would continue to write to the removed file.
            raise StorageError(f"database {self.path} was removed or replaced: restore it, or open the store again")
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
            result, error = _outcome(partial(work, self._connection), IN_MEMORY)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Do nothing: the content stays readable as long as the store exists."""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _outcome(call: Callable[[], Any], path: Path) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        # Two that are not SQLite's: text that is not Unicode (in a corrupt schema even SQLite's own message may not
        # be), and numbers over 64 bits.
        explained = explain(error, path)
        explained.__cause__ = error
        return None, explained
    except BaseException as error:  # noqa: BLE001 - the caller raises it
        return None, error


def _deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # the caller was cancelled
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
