"""The sessions of a store, each used by a thread of its own or by the event loop, which never waits for the server."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ...errors import StorageError
from ..sql.events import AddingEvents
from ..sql.jobs import Job, deliver, set_futures
from ..sql.session import Write
from .attempts import Attempts
from .direct import Lane, Strand, running_loop
from .session import Connect, PostgresSession
from .single_trip import DIRECT, Call, calls_of

if TYPE_CHECKING:
    from .sealer import Sealer

P = ParamSpec("P")
T = TypeVar("T")

SESSIONS = 8
"""Most connections of one store."""
MAX_BATCH = 64


class PooledConnection:
    """Runs work in up to *sessions* sessions.

    The event loop sends the frequent writes itself. Threads do everything else, and what the loop could not finish.
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
        self._attempts = Attempts(name, patience, read_only, sealer)
        self._session = partial(PostgresSession, connect, patience, read_only, sealer)
        self._most = sessions
        self._waiting: deque[Strand] = deque()
        """Strands that wait for a free session."""
        self._free: list[Lane] = []
        """Free sessions that no event loop watches; the last one has worked last."""
        self._watched: list[Lane] = []
        """Free sessions that an event loop watches; likewise."""
        self._lanes: list[Lane] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the last job."""
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
        job = work if type(work) in DIRECT else partial(_called, work, arguments, options)
        return await self._submit(job, "")  # type: ignore[no-any-return]

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
        if job.loop is not self._loop:
            self._loop = job.loop
            self._rescue()
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
            # An entry may follow events at once: then both are one transaction.
            soon = isinstance(work, AddingEvents) and bool(self._threads)
            lane = None if soon else self._free_lane(job)
            if lane is None:
                self._waiting.append(strand)
                if not soon:
                    self._add_thread()
        if lane is not None:
            self._begin(lane, strand)
        elif soon:
            job.loop.call_soon(self._begin_next)
        return job.future

    def _begin_next(self) -> None:
        """Begin the first waiting strand if a session is free or can be made."""
        with self._lock:
            if not self._waiting:
                return
            lane = self._free_lane(self._waiting[0].jobs[0])
            if lane is None:
                self._add_thread()
                return
            strand = self._waiting.popleft()
        self._begin(lane, strand)

    def _add_thread(self) -> None:
        """Start the thread of another session, unless there are enough; with the lock."""
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="concertino-postgres", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _free_lane(self, job: Job) -> Lane | None:
        """Take a free session for *job*, if there is one; with the lock."""
        for lanes in (self._watched, self._free) if _is_direct(job, self._sealer) else (self._free, self._watched):
            for index in reversed(range(len(lanes))):
                if lanes[index].serves(job.loop):
                    return lanes.pop(index)
        # Another event loop may be busy: take its session only if no new one can be made.
        return self._watched.pop() if self._watched and len(self._threads) == self._most else None

    def _begin(self, lane: Lane, strand: Strand) -> None:
        """Send the call of the first job of *strand*, or else let the thread do the jobs."""
        job = strand.jobs[0]
        if _is_direct(job, self._sealer) and job.loop is running_loop():
            with suppress(Exception):  # a value that cannot be encoded, for one: the thread reports it
                calls = calls_of([each.work for each in islice(strand.jobs, 2) if each.loop is job.loop])
                if calls and lane.send(strand, calls, job.loop):
                    return
        lane.give(strand)

    def _end_calls(self, lane: Lane, values: list[Any] | None) -> None:
        """Deliver the *values* of the calls that were sent on *lane*; what is None is left to the thread."""
        strand, lane.strand = lane.strand, None
        assert strand is not None
        if values is None:
            lane.give(strand)
            return
        done: list[Job] = []
        left: list[Call] = []
        for number, (call, value) in enumerate(zip(strand.calls, values, strict=True)):
            job = strand.jobs[number]  # others may be added meanwhile
            if value is None:
                left.append(call)
                continue
            done.append(job)
            try:
                job.outcome = call.result(value), None
            except Exception as error:  # noqa: BLE001 - the caller raises it
                job.outcome = None, error
        set_futures(done)
        strand.calls = left
        following: Strand | None = None
        with self._lock:
            for job in done:
                strand.jobs.remove(job)
            if left:
                following = strand
            else:
                self._put_back(strand)
                if self._waiting:
                    following = self._waiting.popleft()
                elif self._open or not self._closing:
                    self._watched.append(lane)
                    return
        if following is None or left:
            lane.give(following)
        else:
            self._begin(lane, following)

    def _rescue(self) -> None:
        """Let threads do the work of event loops that have ended."""
        with self._lock:
            while self._waiting and not self._waiting[0].jobs[0].loop.is_running():
                lanes = self._free or self._watched
                if not lanes:
                    break  # each session takes the next strand when it has ended its own
                lanes.pop().give(self._waiting.popleft())
            for lane in self._lanes:
                if lane.strand is not None and lane.loop is not None and not lane.loop.is_running():
                    lane.fail()

    def _work(self) -> None:
        session = self._session()
        lane = Lane(session, self._end_calls)
        with self._lock:
            self._lanes.append(lane)
        while (strand := self._next(lane)) is not None:
            calls, error = strand.calls, strand.error
            strand.calls, strand.error = (), None
            with self._lock:
                jobs = strand.take(MAX_BATCH)
            outcomes = self._attempts.outcomes(session, [job.work for job in jobs], calls, error)
            for job, outcome in zip(jobs, outcomes, strict=True):
                job.outcome = outcome
            deliver(jobs)
            del jobs, job, outcome, outcomes, calls, error  # they may be large
            with self._lock:
                self._put_back(strand)
        session.close()
        with self._lock:
            self._threads.remove(threading.current_thread())
            if not self._threads:
                self._end()

    def _next(self, lane: Lane) -> Strand | None:
        """Return the next strand for the thread of *lane*; None at the end."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closing and not self._open:
                return None
            self._free.append(lane)
        while True:
            with suppress(Empty):
                strand = lane.inbox.get(timeout=lane.session.silence)
                lane.take_over()
                return strand
            self._rescue()  # an event loop does not announce its end

    def _put_back(self, strand: Strand) -> None:
        """Queue *strand* if it has more jobs, or else end it; with the lock."""
        if strand.jobs:
            self._waiting.append(strand)
            return
        if strand.tree:
            del self._strands[strand.tree]
        self._open -= 1
        if self._closing:
            self._end_threads()

    def _begin_closing(self) -> None:
        with self._lock:
            if self._closing:
                return
            self._closing = True
            if not self._threads:
                self._end()
            self._end_threads()
        self._rescue()
        atexit.unregister(self._stop)

    def _end(self) -> None:
        if self._sealer is not None:
            self._sealer.close()
        self._closed.set_result(None)

    def _end_threads(self) -> None:
        """End the threads once no work is left."""
        if not self._open:
            for lanes in (self._free, self._watched):
                while lanes:
                    lanes.pop().give(None)

    def _stop(self) -> None:
        self._begin_closing()
        for thread in tuple(self._threads):
            thread.join()


def _is_direct(job: Job, sealer: Sealer | None) -> bool:
    """Return whether the event loop may do *job* itself: to seal content may take a while."""
    return sealer is None and type(job.work) in DIRECT


def _called(work: Callable[..., T], arguments: Any, options: Any, session: PostgresSession) -> T:
    return work(session, *arguments, **options)
