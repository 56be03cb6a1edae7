"""Function calls that the event loop sends, and whose answers it reads.

The writes of a step are such calls. Handing one to a thread and its result back costs more CPU than the call itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue
from typing import Any

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult

from ..sql.jobs import Job
from .session import PostgresSession, encoded, new_name, values_of
from .single_trip import Call, joined

_NOT_PREPARED = "26000"
"""SQLSTATE of an unknown prepared statement: psycopg deallocates all of them after a rollback."""
_PAUSE = 0.1
"""Seconds between two checks whether the event loop of another thread still runs."""


class Strand:
    """Jobs to be done one after the other: the writes to one tree, or a single call."""

    __slots__ = ("calls", "error", "jobs", "tree")

    def __init__(self, tree: str) -> None:
        self.tree = tree
        self.jobs: deque[Job] = deque()
        self.calls: Sequence[Call] = ()
        """The calls of the first jobs once they were sent. A write has a token: the server does it only once."""
        self.error: psycopg.Error | None = None
        """The error of the first call."""

    def take(self, most: int) -> list[Job]:
        """Remove and return the first jobs, at *most* so many."""
        return [self.jobs.popleft() for _ in range(min(len(self.jobs), most))]


class Lane:
    """A session with its thread. An event loop may use it instead, and then watches the connection."""

    def __init__(self, session: PostgresSession, done: Callable[[Lane, Any], None]) -> None:
        """*done* is called with the JSON values of the calls, or with None if the thread has to do them."""
        self.session = session
        self.inbox: SimpleQueue[Strand | None] = SimpleQueue()
        """Work for the thread; None ends it."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that watches the connection."""
        self.strand: Strand | None = None
        """The strand whose first job's call is in flight."""
        self._done = done
        self._pgconn: PGconn | None = None
        self._socket = -1
        self._unprepared: bytes | None = None
        """The name of the statement that is being prepared."""
        self._answer: PGresult | None = None
        self._begun = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._context = Context()
        """Empty: in a copy of its context, a callback would keep alive what its first caller refers to."""

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether a job of *loop* need not wait for another event loop."""
        return self.loop is None or self.loop is loop or not self.loop.is_running()

    def send(self, strand: Strand, calls: Sequence[Call], loop: asyncio.AbstractEventLoop) -> bool:
        """Send the *calls* of the first jobs of *strand* without waiting; return whether they are in flight."""
        strand.calls = calls
        try:
            if not self._watch(loop):
                return False
            self._begun, self._answer = loop.time(), None
            self._query(calls)
        except UnicodeError:  # nothing was sent
            return False
        except psycopg.Error as error:
            strand.error = error
            self._lose()
            return False
        self.strand = strand
        return True

    def give(self, strand: Strand | None) -> None:
        """Let the thread do *strand*; None: let it end."""
        if self.loop is running_loop():
            self._leave()
        self.inbox.put(strand)

    def take_over(self) -> None:
        """Wait in the thread until no event loop watches the connection."""
        loop = self.loop
        if loop is None:
            return
        left: Future[None] = Future()
        with suppress(RuntimeError):  # it is closed
            loop.call_soon_threadsafe(self._leave_for, left)
        while loop.is_running():
            with suppress(TimeoutError):
                left.result(_PAUSE)
                return
        if left.cancel():  # an event loop that has ended drops its callbacks
            self._leave()
        else:
            left.result()

    def fail(self, error: psycopg.Error | None = None) -> None:
        """Give up the call in flight and its connection because of *error*."""
        if self.strand is not None:
            self.strand.error = error
        self._lose()
        self._done(self, None)

    def _leave_for(self, left: Future[None]) -> None:
        if left.set_running_or_notify_cancel():
            self._leave()
            left.set_result(None)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Let *loop* watch the connection; return whether a call can be sent."""
        connection = self.session.open_connection
        if connection is None or connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            return False
        if self.loop is loop:
            return True
        if self.loop is not None:
            if self.loop.is_running():
                return False
            self._leave()
        self._pgconn, self._socket = connection.pgconn, connection.pgconn.socket
        try:
            self._context.run(loop.add_reader, self._socket, self._read)
        except NotImplementedError:  # Windows' default loop
            return False
        self.loop = loop
        return True

    def _query(self, calls: Sequence[Call]) -> None:
        """Send *calls*, or have their statement prepared first."""
        pgconn, loop, sql = self._pgconn, self.loop, joined(tuple([call.sql for call in calls]))
        assert pgconn is not None and loop is not None
        arguments = encoded(calls)  # it may fail, so it comes before anything is sent
        if (name := self.session.prepared.get(sql)) is None:
            self._unprepared = new_name()
            pgconn.send_prepare(self._unprepared, sql.encode())
        else:
            self._unprepared = None
            pgconn.send_query_prepared(name, arguments)
        if pgconn.flush():
            loop.add_writer(self._socket, self._write)
        if self._timer is None:
            self._timer = loop.call_later(self.session.silence, self._end_silence, context=self._context)

    def _write(self) -> None:
        """Send the rest of a call that was larger than the socket's buffer."""
        assert self._pgconn is not None and self.loop is not None
        try:
            if not self._pgconn.flush():
                self.loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self.fail(error)

    def _read(self) -> None:
        """Read what the server has sent."""
        pgconn = self._pgconn
        assert pgconn is not None
        try:
            pgconn.consume_input()
            while self.strand is not None and not pgconn.is_busy():
                if (found := pgconn.get_result()) is not None:
                    self._answer = found
                elif not self._went_on(self.strand):
                    self._done(self, self._values(self.strand))
                    break
        except psycopg.Error as error:
            if self.strand is not None:
                self.fail(error)
            else:
                self._lose()  # the server has closed the connection

    def _went_on(self, strand: Strand) -> bool:
        """Send the calls of *strand* if the answer confirms the preparation of their statement.

        Return whether it did.
        """
        answer = self._answer
        if self._unprepared is None or answer is None or answer.status != pq.ExecStatus.COMMAND_OK:
            return False
        self.session.prepared[joined(tuple([call.sql for call in strand.calls]))] = self._unprepared
        self._answer = None
        self._query(strand.calls)
        return True

    def _values(self, strand: Strand) -> list[Any] | None:
        """Return the values of the functions, as `values_of` does, or None if the statement has failed."""
        answer = self._answer
        assert answer is not None
        if answer.status != pq.ExecStatus.TUPLES_OK:
            error = error_from_result(answer)
            if error.sqlstate == _NOT_PREPARED:
                self.session.prepared.clear()
            elif error.sqlstate is not None and len(strand.calls) == 1:  # of two calls, either may have failed
                strand.error = error  # the answer of the server, not of the library to a lost connection
            return None
        return values_of(answer)

    def _end_silence(self) -> None:
        """Give up a call that is not answered in time, as through a link that drops everything."""
        assert self.loop is not None
        self._timer = None
        if self.strand is None:
            return
        end = self._begun + self.session.silence
        if self.loop.time() < end:
            self._timer = self.loop.call_at(end, self._end_silence, context=self._context)
        else:
            self.fail(psycopg.OperationalError(f"no answer within {self.session.silence} seconds"))

    def _leave(self) -> None:
        """Stop watching the connection. The event loop is the running one, or has ended."""
        loop, timer, self.loop, self._timer = self.loop, self._timer, None, None
        if loop is not None:
            with suppress(RuntimeError):  # it is closed
                loop.remove_reader(self._socket)
                loop.remove_writer(self._socket)
        if timer is not None:
            timer.cancel()

    def _lose(self) -> None:
        self._leave()
        if self._pgconn is not None:
            self._pgconn.finish()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
