"""A session in PostgreSQL: the dialect of its statements, transactions, and reconnection."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg import RawCursor, pq
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute
from psycopg.pq.abc import PGresult
from pydantic_core import from_json

from ...errors import StorageError
from ...scope import OPERATOR, AnyScope
from ..sql.session import Cursor
from ..sql.statements import kind_of, limited
from .dialect import numbered, queries
from .single_trip import Call, joined

if TYPE_CHECKING:
    from .sealer import Sealer

log = logging.getLogger("concertino")

Connect = Callable[[], "psycopg.Connection[Any]"]

_PAUSE = 0.02
_numbers = count()
_CLOCK = "extract(epoch FROM clock_timestamp())::float8"


def new_name() -> bytes:
    """Return the name of a statement to be prepared."""
    return b"call_%d" % next(_numbers)


def encoded(calls: Sequence[Call]) -> list[bytes | None]:
    """Return the arguments of *calls*. Raises `UnicodeError` for half of a surrogate pair."""
    return [None if text is None else text.encode() for call in calls for text in call.arguments]


def values_of(result: PGresult) -> list[Any]:
    """Return the values of functions, decoded from JSON. The value of a function that did nothing is None."""
    found = [result.get_value(0, column) for column in range(result.nfields)]
    return [None if value is None else from_json(value) for value in found]


def _answer(connection: psycopg.Connection[Any]) -> PGresult:
    """Wait for the result of what was sent. Raises `psycopg.Error`."""
    result: PGresult
    (result,) = connection.wait(execute(connection.pgconn))
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result


class Row(tuple[Any, ...]):
    """A row whose values have names."""

    __slots__ = ()
    names: ClassVar[dict[str, int]]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names[key] if isinstance(key, str) else key)


def named_rows(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    """Return the function that makes a row of *cursor*."""
    result = cursor.pgresult
    assert result is not None
    return _rows_of(tuple(map(result.fname, range(result.nfields))))


@lru_cache(1024)
def _rows_of(columns: tuple[bytes, ...]) -> Callable[[Sequence[Any]], Row]:
    names = {name.decode(): number for number, name in reversed([*enumerate(columns)])}
    return type("NamedRow", (Row,), {"names": names, "__slots__": ()})


class StatementCursor(RawCursor[Any]):
    """A statement's result."""

    @property
    def lastrowid(self) -> int | None:
        """The number of the row that the statement has added."""
        row = self.fetchone()
        return None if row is None else row[0]


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that is closed if the server is silent for too long, as through a link that drops everything."""

    silence: float | None = None
    """Longer than any statement may take."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server. Raises `psycopg.OperationalError`, and is closed then."""
        try:
            return super().wait(gen, interval, timeout or self.silence)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:  # not an answer of the server
                self.pgconn.finish()
            raise


class LostError(Exception):
    """The connection was lost, and the transaction was rolled back: all work in it is to be repeated."""


class PostgresSession:
    """A connection as the store's rules use it. It is made anew when it was lost."""

    queries: ClassVar = queries()

    def __init__(self, connect: Connect, patience: float, read_only: bool, sealer: Sealer | None = None) -> None:
        self.sealer = sealer
        self._connect, self._patience = connect, patience
        self.read_only = read_only
        self.silence = patience + 1
        """Seconds without an answer after which a connection is given up: longer than any statement may take."""
        self.prepared: dict[str, bytes] = {}
        """The names of the statements with calls that are prepared on this connection."""
        self._connection: psycopg.Connection[Any] | None = None
        self._now: float | None = None
        """The time at which the transaction began."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection, made anew if it is closed. Raises `psycopg.OperationalError`."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
            self.prepared = {}
        return self._connection

    @property
    def open_connection(self) -> psycopg.Connection[Any] | None:
        """The connection if it is open, else None."""
        return None if self._connection is None or self._connection.closed else self._connection

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run one statement."""
        sql, names = numbered(sql)
        if not isinstance(parameters, tuple):
            parameters = [parameters[name] for name in names]
        return StatementCursor(self.connection, row_factory=named_rows).execute(sql, parameters)

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """Return the values of functions, as `values_of` does, called in one transaction of their own."""
        sql, arguments = joined(tuple([call.sql for call in calls])), encoded(calls)
        try:
            return self._called(sql, arguments)
        except InvalidSqlStatementName:  # psycopg deallocates all statements after a rollback
            self.prepared.clear()
            return self._called(sql, arguments)

    def _called(self, sql: str, arguments: Sequence[bytes | None]) -> list[Any]:
        """Return the values of *sql*, without a cursor, which would cost more CPU than the call."""
        connection = self.connection
        if (name := self.prepared.get(sql)) is None:
            name = new_name()
            connection.pgconn.send_prepare(name, sql.encode())
            _answer(connection)
            self.prepared[sql] = name
        connection.pgconn.send_query_prepared(name, arguments)
        return values_of(_answer(connection))

    def now(self) -> float:
        """Return the time of the database: that of the transaction's begin, or else the current one."""
        return self._now or float(self.connection.execute(f"SELECT {_CLOCK}").fetchone()[0])  # type: ignore[index]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction for a `with` block, which commits it, or rolls it back after an error.

        If the answer to the commit is lost, the server is asked for the outcome.
        """
        cursor = self.connection.execute(f"BEGIN; SELECT {_CLOCK}, pg_current_xact_id()::text")
        cursor.nextset()
        ((self._now, transaction),) = cursor.fetchall()
        with self._rolled_back():
            yield
        try:
            self.connection.execute("COMMIT")
        except psycopg.OperationalError:
            self._resolve(transaction)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Begin a transaction for a `with` block that reads everything inside at one moment."""
        with self._rolled_back(), self.batched():
            self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
            self.connection.execute("COMMIT")

    @contextmanager
    def batched(self) -> Iterator[None]:
        """Send the statements of a `with` block ahead: only the reading of a result, and the end, wait for the server.

        An error of a statement is raised by the next wait.
        """
        with self.connection.pipeline():
            yield

    def lock(self, name: str, bound: Mapping[str, object], scope: AnyScope = OPERATOR) -> None:
        """Wait until no other transaction writes what the statement *name* selects for *scope*."""
        self.execute(limited(self.queries[name], kind_of(scope)), bound)

    def is_dead(self, owner: str) -> bool:
        """Return False: only the lease decides, since processes of many machines write here."""
        return False

    def dead_processes(self) -> list[str]:
        """Return none, for the same reason."""
        return []

    def rebuild_words(self) -> None:
        """Remove the words of erased memories from their index."""
        self.execute(self.queries["rebuild_words"])

    def checkpoint(self) -> None:
        """Discard the keys of erased content.

        Without keys, old versions of rows go with the next vacuum, and the log with its archive.
        """
        if self.sealer is None or self.read_only:
            return
        try:
            while ids := [row[0] for row in self.execute(self.queries["discarded_keys"]).fetchall()]:
                self.sealer.discard(ids)
                self.execute(self.queries["keys_are_gone"], (json.dumps(ids),))
        except (StorageError, psycopg.Error) as error:  # what it follows is committed
            self.reset()
            log.warning("keys of erased content remain until the next sweep: %s", type(error).__name__)

    def reset(self) -> None:
        """End a transaction that an error has left open."""
        self._now = None
        if self._connection is not None and not self._is_idle():
            with suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")
            if not self._is_idle():
                self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _is_idle(self) -> bool:
        return self._connection is not None and self._connection.pgconn.transaction_status == pq.TransactionStatus.IDLE

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.reset()
            raise
        finally:
            self._now = None

    def _resolve(self, transaction: str) -> None:
        """Return if the *transaction* was committed whose answer was lost. Raises `LostError` if it was rolled back."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self.close()
                found = self.connection.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone()
                status = None if found is None else found[0]
            except psycopg.OperationalError:
                status = "in progress"
                if time.monotonic() > deadline:
                    raise
            if status == "committed":
                return
            if status == "aborted":
                raise LostError
            if status is None or time.monotonic() > deadline:
                raise StorageError(f"the outcome of transaction {transaction} is unknown: read what it wrote")
            time.sleep(_PAUSE)
