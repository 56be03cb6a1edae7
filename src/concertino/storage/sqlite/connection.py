"""The one thread that uses the connection: the event loop never waits for the disk."""

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


class Hands(Protocol):
    """What a store works with: somebody who has the connection."""

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* returns. StorageError: SQLite failed, or it is closed."""
        ...

    async def close(self) -> None:
        """Finish what was asked for, then release the connection. May be called twice."""
        ...


class Worker:
    """Does work on one connection, in the order in which it was asked for.

    Whoever waits may be cancelled: what was asked for is done all the same, whole. Each job costs one hop to the
    thread and one back, without an executor's futures and locks between them.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A daemon, so that a store that nobody closes does not keep the process; `atexit` waits for its work.
        self._thread = threading.Thread(target=self._run, name="concertino-sqlite", daemon=True)
        self._lock = threading.Lock()
        self._closing = False
        self._closed: Future[None] = Future()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Connect. What `connect` raises, as `StorageError`; then the worker is closed."""
        self._thread.start()
        atexit.register(self._stop)
        try:
            await self._ask(self._open)
        except BaseException:
            self._begin_closing()
            raise

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* returns. StorageError: SQLite failed, or the worker is closed."""
        return await self._ask(lambda: work(self._opened()))  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Finish what was asked for, then close the connection. May be called twice."""
        self._begin_closing()
        await asyncio.shield(asyncio.wrap_future(self._closed))

    def _ask(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
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

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future, loop = job
            outcome = _outcome(call, self.path)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_tell, future, *outcome)
            del job, call, future, loop, outcome  # while this waits, it holds nothing
        if self._connection is not None:
            self._connection.close()
        self._closed.set_result(None)

    def _open(self) -> None:
        self._connection = connect(self.path, self._busy_timeout)
        self._file = _identity(self.path)

    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None, "nothing is asked for before open() has returned"
        if _identity(self.path) != self._file:
            # SQLite would go on writing to a file that nobody can find any more.
            raise StorageError(f"database {self.path} is gone, or another file is in its place: put it back")
        return self._connection


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Inline:
    """Does work at once, where it is asked for, on a database without a file that is made at the first use."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* returns. StorageError: SQLite failed."""
        with self._lock:
            if self._connection is None:
                self._connection = connect_in_memory()
                weakref.finalize(self, self._connection.close)
            result, error = _outcome(partial(work, self._connection), IN_MEMORY)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Nothing: what was kept can be read as long as the store is there."""


def _outcome(call: Callable[[], Any], path: Path) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        # Those that are not SQLite's: a text that is not Unicode (in a damaged schema SQLite's own message may be
        # none), and a number over 64 bits.
        explained = explain(error, path)
        explained.__cause__ = error
        return None, explained
    except BaseException as error:  # noqa: BLE001 - it is raised again, to the one who waits
        return None, error


def _tell(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # whoever waited was cancelled
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
