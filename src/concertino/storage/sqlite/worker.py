"""The one thread that uses the connection: the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ...errors import StorageError
from .failures import explain
from .opening import connect

T = TypeVar("T")


class Worker:
    """Does work on one connection, in the order in which it was asked for.

    Whoever waits may be cancelled: what was asked for is done all the same, whole.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="concertino-sqlite")
        self._connection: sqlite3.Connection | None = None
        self._closing: Future[None] | None = None

    async def open(self) -> None:
        """Connect. What `connect` raises, as `StorageError`; then the worker is closed."""
        try:
            await self._wait(self._thread.submit(self._open))
        except BaseException:
            self._begin_closing()
            raise

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* returns. StorageError: SQLite failed, or the worker is closed."""
        if self._closing is not None:
            raise StorageError(f"the store of {self.path} is closed: open it again")
        return await self._wait(self._thread.submit(self._do, work))

    async def close(self) -> None:
        """Finish what was asked for, then close the connection. May be called twice."""
        await self._wait(self._begin_closing())

    def _begin_closing(self) -> Future[None]:
        if self._closing is None:
            self._closing = self._thread.submit(self._close)
            self._thread.shutdown(wait=False)
        return self._closing

    @staticmethod
    async def _wait(future: Future[T]) -> T:
        return await asyncio.shield(asyncio.wrap_future(future))

    def _open(self) -> None:
        try:
            self._connection = connect(self.path, self._busy_timeout)
        except (sqlite3.Error, UnicodeError) as error:
            # Where a schema is damaged, SQLite's message itself may be no Unicode.
            raise explain(error, self.path) from error

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        assert self._connection is not None, "nothing is asked for before open() has returned"
        try:
            return work(self._connection)
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            # The two that are not SQLite's: a text that is not Unicode, a number over 64 bits.
            raise explain(error, self.path) from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
