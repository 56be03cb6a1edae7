"""Connections: a thread that owns one, so that the event loop never waits for the disk, and one in memory.

Every write runs in a transaction. Writes that wait together share one (group commit), and with it one fsync.
"""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, cast

from ...errors import StorageError
from ...scope import OPERATOR, AnyScope
from ..process import is_dead
from ..sql.events import AddingEvents
from ..sql.jobs import Job, Outcome, deliver, set_futures, set_outcomes
from ..sql.session import Write
from .errors import explain
from .plain_events import add_plain, is_plain
from .statements import queries
from .watermark import Watermark

P = ParamSpec("P")
T = TypeVar("T")
Connect = Callable[[], "SqliteSession"]

MAX_BATCH = 256
"""Writes after which no other caller's join a transaction, so that none of them waits for many others."""
PATIENCE = 250
"""Milliseconds to wait for a reader that blocks the truncation of the write-ahead log; the next sweep tries again."""
IN_MEMORY = Path(":memory:")
"""Path of a database without a file."""


class SqliteSession(sqlite3.Connection):
    """A connection to SQLite as the store's rules use it. There is one writer at a time, so they need no locks."""

    queries: ClassVar = queries()
    sealer = None
    now = staticmethod(time.time)
    is_dead = staticmethod(is_dead)

    @property
    def read_only(self) -> bool:
        """Return True if it was opened by `connect_read_only`."""
        return bool(self.execute("PRAGMA query_only").fetchone()[0])

    def transaction(self) -> Self:
        """Begin a transaction for a `with` block, which commits it, or rolls it back after an error.

        The write lock is taken at once: no later statement can fail for it.
        """
        self.execute("BEGIN IMMEDIATE")
        return self

    def reading(self) -> Self:
        """Begin a transaction for a `with` block that reads everything inside at one moment."""
        self.execute("BEGIN")
        return self

    def batched(self) -> AbstractContextManager[None]:
        """Do nothing: there are no round trips."""
        return nullcontext()

    def lock(self, name: str, bound: Mapping[str, object], scope: AnyScope = OPERATOR) -> None:
        """Do nothing."""

    def dead_processes(self) -> list[str]:
        """Return the processes of this machine that have leases and have ended."""
        return [row[0] for row in self.execute(self.queries["processes"]).fetchall() if is_dead(row[0])]

    def rebuild_words(self) -> None:
        """Build a new index of words, and let SQLite overwrite the old: its segments keep the words of deleted rows."""
        for name in ("words_new", "words_copy", "words_drop", "words_rename"):
            self.execute(self.queries[name])

    def checkpoint(self) -> None:
        """Truncate the write-ahead log, which still contains erased content. If a reader blocks it, the log stays."""
        with suppress(sqlite3.Error):
            patience = self.execute("PRAGMA busy_timeout").fetchone()[0]
            self.execute(f"PRAGMA busy_timeout = {min(patience, PATIENCE)}")
            try:
                self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.execute(f"PRAGMA busy_timeout = {patience}")


# -- transactions ------------------------------------------------------------------------------------------------------


class _FailedError(Exception):
    """A write has failed without a savepoint, so all of them are repeated with savepoints."""


class _RolledBackError(Exception):
    """The failure of one write, such as a full disk, has rolled back the whole transaction."""


def _commit_together(connection: SqliteSession, writes: Sequence[Write[Any]], path: Path) -> list[Outcome]:
    """Do *writes* in one transaction, in which each may fail alone, and return their outcomes after the commit.

    Savepoints cost as much as a small write, so they come only after one has failed. If the transaction is lost as a
    whole, each write is repeated in one of its own.
    """
    for work in (_do_all, _do_in_savepoints):
        try:
            connection.transaction()
        except sqlite3.Error as error:
            return [(None, _explained(error, path)) for _ in writes]
        try:
            with connection:
                outcomes = work(connection, writes, path)
        except _FailedError:
            continue
        except (sqlite3.Error, _RolledBackError):
            break
        if any(write.erased for write, (_, error) in zip(writes, outcomes, strict=True) if error is None):
            connection.checkpoint()
        return outcomes
    return [_outcome(path, _commit, connection, write) for write in writes]


def _commit(connection: SqliteSession, write: Write[T]) -> T:
    """Do *write* in a transaction of its own."""
    with connection.transaction():
        result = write.work(connection)
    if write.erased:
        connection.checkpoint()
    return result


def _do_all(connection: SqliteSession, writes: Sequence[Write[Any]], _path: Path) -> list[Outcome]:
    try:
        if len(writes) == 1:
            return [(writes[0].work(connection), None)]
        results: list[Any] = []
        for plain, group in groupby(writes, is_plain):
            if plain:
                add_plain(connection, several := cast("list[AddingEvents]", list(group)))
                results += [None] * len(several)
            else:
                results += [write.work(connection) for write in group]
    except BaseException as error:
        raise _FailedError from error
    return [(result, None) for result in results]


def _do_in_savepoints(connection: SqliteSession, writes: Sequence[Write[Any]], path: Path) -> list[Outcome]:
    return [_do_in_savepoint(connection, write, path) for write in writes]


def _do_in_savepoint(connection: SqliteSession, write: Write[Any], path: Path) -> Outcome:
    connection.execute("SAVEPOINT write")
    outcome = _outcome(path, write.work, connection)
    if outcome[1] is not None:
        if not connection.in_transaction:
            raise _RolledBackError
        connection.execute("ROLLBACK TO write")
    connection.execute("RELEASE write")
    return outcome


def _outcome(path: Path, call: Callable[..., Any], *arguments: Any, **options: Any) -> Outcome:
    """Return the outcome of a call, with SQLite's errors translated."""
    try:
        return call(*arguments, **options), None
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        # Two that are not SQLite's: text that is not Unicode (in a corrupt schema even SQLite's own message may not
        # be), and numbers over 64 bits.
        return None, _explained(error, path)
    except BaseException as error:  # noqa: BLE001 - the caller raises it
        return None, error


def _explained(error: Exception, path: Path) -> Exception:
    explained = explain(error, path)
    explained.__cause__ = error
    return explained


# -- connections -------------------------------------------------------------------------------------------------------


class ThreadConnection:
    """A connection in a thread of its own, which does the work in the order of the calls.

    Work is done as a whole even if its caller is cancelled. A call costs one hop to the thread and one back, without an
    executor's futures and locks in between. Writes that wait together are committed, and their callers woken, together.
    """

    def __init__(self, path: Path, connect: Connect, watermark: Watermark | None) -> None:
        """Name the file; *connect* opens it in the thread. Without a watermark it is only read."""
        self.path = path
        self._connect = connect
        self._watermark = watermark
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A daemon, so that an unclosed store does not block the interpreter's exit; `atexit` waits for its work.
        self._thread = threading.Thread(target=self._work, name="concertino-sqlite", daemon=True)
        self._lock = threading.Lock()
        self._closing = False
        self._closed: Future[None] = Future()
        self._connection: SqliteSession | None = None

    async def open(self) -> None:
        """Connect. Raises `StorageError`, and is closed then."""
        self._thread.start()
        atexit.register(self._stop)
        try:
            await self._submit(self._open)
        except BaseException:
            self._begin_closing()
            raise

    async def run(self, work: Callable[Concatenate[SqliteSession, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        """Return the result of *work*. Raises `StorageError` if SQLite failed or the store is closed."""
        return await self._submit(lambda: work(self._opened(), *arguments, **options))  # type: ignore[no-any-return]

    async def run_after(
        self, tree: str, work: Callable[Concatenate[SqliteSession, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Return the result of *work*: everything is done in the order of the calls."""
        return await self._submit(lambda: work(self._opened(), *arguments, **options))  # type: ignore[no-any-return]

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write* after its commit. Raises `StorageError` as `run` does."""
        return await self._submit(write)  # type: ignore[no-any-return]

    def submit(self, writes: Sequence[Write[None]]) -> asyncio.Future[list[BaseException | None]]:
        """Queue *writes*, and return their errors as a future."""
        return self._submit(writes)

    async def close(self) -> None:
        """Finish pending work, then close the connection. Closing twice is allowed."""
        self._begin_closing()
        await asyncio.shield(asyncio.wrap_future(self._closed))

    def _submit(self, work: Callable[[], Any] | Write[Any] | Sequence[Write[Any]]) -> asyncio.Future[Any]:
        job = Job(work)
        with self._lock:
            if self._closing:
                raise StorageError(f"the store of {self.path} is closed: open it again")
            self._jobs.put(job)
        return job.future

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
            self._do(jobs)
            deliver(jobs)
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
            jobs, size = [job], len(job.writes)
            while job.writes and not taken and size < MAX_BATCH and not self._jobs.empty():
                following = self._jobs.get()
                if following is not None and following.writes:
                    jobs.append(following)
                    size += len(following.writes)
                else:
                    taken.append(following)
            yield jobs
            del job, jobs

    def _do(self, jobs: list[Job]) -> None:
        """Do the work of *jobs*, which is one call or writes of one or several jobs, and set its outcomes."""
        first = jobs[0]
        if callable(first.work):
            first.outcome = _outcome(self.path, first.work)
        elif len(jobs) == 1 and isinstance(first.work, Write):
            first.outcome = _outcome(self.path, self._write, first.work)
        else:
            writes = [write for job in jobs for write in job.writes]
            outcomes, error = _outcome(self.path, self._write_together, writes)
            set_outcomes(jobs, outcomes or [(None, error)] * len(writes))

    def _write(self, write: Write[T]) -> T:
        result = _commit(self._opened(), write)
        if self._watermark is not None:
            self._watermark.advance(write.entry)
        return result

    def _write_together(self, writes: list[Write[Any]]) -> list[Outcome]:
        outcomes = _commit_together(self._opened(), writes, self.path)
        if self._watermark is not None:
            committed = [write.entry for write, (_, error) in zip(writes, outcomes, strict=True) if error is None]
            self._watermark.advance(max(committed, default=0))
        return outcomes

    def _open(self) -> None:
        self._connection = self._connect()
        if self._watermark is not None:
            self._watermark.open(self._connection)

    def _opened(self) -> SqliteSession:
        assert self._connection is not None, "open() has returned"
        if self._watermark is not None:
            self._watermark.check_files()
        return self._connection


class InlineConnection:
    """A connection to a database in memory, created at the first use, that works in the caller's thread.

    Writes that are submitted in one pass of the event loop are committed together.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: SqliteSession | None = None
        self._lock = threading.RLock()
        self._jobs: list[Job] = []

    async def run(self, work: Callable[Concatenate[SqliteSession, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        """Return the result of *work*. Raises `StorageError` if SQLite failed."""
        return self._result(work, *arguments, **options)  # type: ignore[no-any-return]

    async def run_after(
        self, tree: str, work: Callable[Concatenate[SqliteSession, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Return the result of *work*."""
        return self._result(work, *arguments, **options)  # type: ignore[no-any-return]

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write*. Raises `StorageError` as `run` does."""
        return self._result(_commit, write)  # type: ignore[no-any-return]

    def submit(self, writes: Sequence[Write[None]]) -> asyncio.Future[list[BaseException | None]]:
        """Queue *writes* for the end of this pass, and return their errors as a future."""
        job = Job(writes)
        with self._lock:
            if not self._jobs:
                job.loop.call_soon(self._do_jobs)
            self._jobs.append(job)
        return job.future

    def _do_jobs(self) -> None:
        """Do the submitted writes."""
        with self._lock:
            jobs, self._jobs = self._jobs, []
            writes = [write for job in jobs for write in job.writes]
            set_outcomes(jobs, _commit_together(self._opened(), writes, IN_MEMORY))
        here = asyncio.get_running_loop()
        set_futures([job for job in jobs if job.loop is here])
        deliver([job for job in jobs if job.loop is not here])

    async def close(self) -> None:
        """Do nothing: the content stays readable as long as the store exists."""

    def _result(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with self._lock:
            if self._jobs:
                self._do_jobs()
            result, error = _outcome(IN_MEMORY, work, self._opened(), *arguments, **options)
        if error is not None:
            raise error
        return result

    def _opened(self) -> SqliteSession:
        if self._connection is None:
            self._connection = self._connect()
            weakref.finalize(self, self._connection.close)
        return self._connection
