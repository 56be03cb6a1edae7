"""The sessions of a store: threads that each own one, so that the event loop never waits for the server."""

from __future__ import annotations

import asyncio
import atexit
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import psycopg

from ...errors import StorageError
from ..sql.jobs import Job, Outcome, deliver
from ..sql.session import Write
from .errors import OLD_PLAN, READ_ONLY, explain, is_conflict, may_pass
from .session import Connect, LostError, PostgresSession
from .single_trip import UNUSUAL, call_of

if TYPE_CHECKING:
    from .sealer import Sealer

P = ParamSpec("P")
T = TypeVar("T")

SESSIONS = 8
"""Most connections of one store."""
MAX_BATCH = 64
_CONFLICTS = 5
"""How often work is repeated because another transaction inserted the same key."""


class Strand:
    """Jobs to be done one after the other: the writes to one tree, or a single call."""

    __slots__ = ("jobs", "tree")

    def __init__(self, tree: str) -> None:
        self.tree = tree
        self.jobs: deque[Job] = deque()


class PooledConnection:
    """Runs work in up to *sessions* sessions.

    The writes to a tree are done in the order of the calls, also by different sessions. Everything else is done by
    the free session that has worked last: it has prepared most statements. A session's connection is made when it is
    needed first. Work that a lost connection or a conflict between transactions has interrupted is repeated.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        sessions: int,
        patience: float,
        read_only: bool,
        sealer: Sealer | None = None,
    ) -> None:
        """Name the database for messages; *connect* opens a connection to it, and *sealer* seals content."""
        self._sealer = sealer
        self.name = name
        self._connect, self._patience, self._read_only = connect, patience, read_only
        self._most = sessions
        self._waiting: deque[Strand] = deque()
        """Strands that wait for a free session."""
        self._free: list[SimpleQueue[Strand | None]] = []
        """The inboxes of the free sessions; the session of the last one has worked last."""
        self._strands: dict[str, Strand] = {}
        self._lock = threading.Lock()
        self._open = 0
        """Strands with jobs that are not done."""
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._closed: Future[None] = Future()
        atexit.register(self._stop)

    async def run(
        self, work: Callable[Concatenate[PostgresSession, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Return the result of *work*. Raises `StorageError` if the server failed or the store is closed."""
        return await self._submit(partial(_called, work, arguments, options), "")  # type: ignore[no-any-return]

    async def run_after(
        self, tree: str, work: Callable[Concatenate[PostgresSession, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Return the result of *work* as `run` does, after all earlier writes to the *tree* of a root."""
        return await self._submit(partial(_called, work, arguments, options), tree)  # type: ignore[no-any-return]

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write* after its commit. Raises `StorageError` as `run` does."""
        return await self._submit(write, write.tree)  # type: ignore[no-any-return]

    def submit(self, writes: Sequence[Write[None]]) -> asyncio.Future[list[BaseException | None]]:
        """Queue *writes*, and return their errors as a future."""
        return asyncio.gather(*[self._submit(write, write.tree) for write in writes], return_exceptions=True)

    async def close(self) -> None:
        """Finish pending work, then close the connections. Closing twice is allowed."""
        self._begin_closing()
        await asyncio.shield(asyncio.wrap_future(self._closed))

    def _submit(self, work: Any, tree: str) -> asyncio.Future[Any]:
        job = Job(work)
        with self._lock:
            if self._closing:
                raise StorageError(f"the store of {self.name} is closed: open it again")
            strand = self._strands.get(tree) if tree else None
            if strand is not None:
                strand.jobs.append(job)  # its session, or the next one, comes to it
                return job.future
            strand = Strand(tree)
            strand.jobs.append(job)
            if tree:
                self._strands[tree] = strand
            self._open += 1
            if self._free:
                self._free.pop().put(strand)
                return job.future
            self._waiting.append(strand)
            if len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name="concertino-postgres", daemon=True)
                self._threads.append(thread)
                thread.start()
        return job.future

    def _work(self) -> None:
        session = PostgresSession(self._connect, self._patience, self._read_only, self._sealer)
        inbox: SimpleQueue[Strand | None] = SimpleQueue()
        while (strand := self._next(inbox)) is not None:
            jobs = self._taken(strand)
            for job in jobs:
                job.outcome = self._outcome(session, job.work)
            deliver(jobs)
            del jobs, job  # they may be large
            self._put_back(strand)
        session.close()
        with self._lock:
            self._threads.remove(threading.current_thread())
            if not self._threads:
                self._end()

    def _next(self, inbox: SimpleQueue[Strand | None]) -> Strand | None:
        """Return the next strand for the session with this inbox; None at the end."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closing and not self._open:
                return None
            self._free.append(inbox)
        return inbox.get()

    def _taken(self, strand: Strand) -> list[Job]:
        with self._lock:
            return [strand.jobs.popleft() for _ in range(min(len(strand.jobs), MAX_BATCH))]

    def _put_back(self, strand: Strand) -> None:
        with self._lock:
            if strand.jobs:
                self._waiting.append(strand)
                return
            if strand.tree:
                del self._strands[strand.tree]
            self._open -= 1
            if self._closing:
                self._end_threads()

    def _outcome(self, session: PostgresSession, work: Any) -> Outcome:
        """Return the outcome of *work*, repeated while that may help."""
        deadline, usual, call = None, isinstance(work, Write), None
        for tries in count():
            try:
                call = call or (call_of(work, self._sealer) if usual else None)
                if call is not None and (found := session.call(call)) is not None:
                    return call.result(found), None
                return _done(session, work), None
            except LostError:
                pass
            except psycopg.Error as error:
                session.reset()
                if error.sqlstate == UNUSUAL:
                    usual, call = False, None
                    continue
                deadline = deadline or time.monotonic() + self._patience  # from the first failure on
                conflict = is_conflict(error) and tries < _CONFLICTS
                refused = error.sqlstate == READ_ONLY
                if not (conflict or may_pass(error)) or time.monotonic() > deadline or (refused and self._read_only):
                    return None, self._explained(error)
                if refused or error.sqlstate == OLD_PLAN:
                    session.close()  # the server is a standby now, so look for the primary; or prepare anew
            except (UnicodeError, OverflowError) as error:
                return None, self._explained(error)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                return None, error
            time.sleep(min(0.01 * 2**tries, 0.5) * (0.5 + random.random()))  # noqa: S311 - to spread retries
        raise AssertionError("it returns from the loop")

    def _explained(self, error: Exception) -> Exception:
        explained = explain(error, self.name)
        explained.__cause__ = error
        return explained

    def _begin_closing(self) -> None:
        with self._lock:
            if self._closing:
                return
            self._closing = True
            if not self._threads:
                self._end()
            self._end_threads()
        atexit.unregister(self._stop)

    def _end(self) -> None:
        if self._sealer is not None:
            self._sealer.close()
        self._closed.set_result(None)

    def _end_threads(self) -> None:
        """End the threads once no work is left."""
        if not self._open:
            while self._free:
                self._free.pop().put(None)

    def _stop(self) -> None:
        self._begin_closing()
        for thread in tuple(self._threads):
            thread.join()


def _done(session: PostgresSession, work: Any) -> Any:
    """Return the result of *work*; a write is done in a transaction, under the lock of its tree."""
    if not isinstance(work, Write):
        return work(session)
    with session.transaction():
        if work.tree:
            session.lock(work.lock, {"run_id": work.tree})
        result = work.work(session)
    if work.erased:
        session.checkpoint()
    return result


def _called(work: Callable[..., T], arguments: Any, options: Any, session: PostgresSession) -> T:
    return work(session, *arguments, **options)
