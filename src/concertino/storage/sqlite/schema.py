"""Opening a database: first make sure that it is ours, then bring it to the current schema."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from functools import cache
from hashlib import blake2b
from pathlib import Path

from ...errors import StorageError
from .errors import foreign, is_locked, newer, no_database

APPLICATION_ID = 0x434E4354
"""Marks a SQLite file as concertino's ("CNCT")."""

SMALLEST = 512
"""Bytes: no database is smaller."""


OLDEST = (3, 35, 0)
"""The first version of SQLite that says what an UPDATE has changed (RETURNING)."""

IN_MEMORY = Path(":memory:")
"""Stands for a database without a file."""


def connect_in_memory() -> sqlite3.Connection:
    """A connection to a new database without a file. It may be used in any thread, by one at a time."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    add_functions(connection)
    _migrate(connection, IN_MEMORY)
    return connection


def connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """A connection to the database at *path*, made if there is none, with the current schema.

    StorageError: the path cannot be used. DatabaseVersionError: the file is not ours, or newer than we are;
    then nothing was written to it. sqlite3.Error: SQLite failed.
    """
    _check_path(path)
    if sqlite3.sqlite_version_info < OLDEST:
        raise StorageError(f"this Python has SQLite {sqlite3.sqlite_version}: one with SQLite 3.35 or newer is needed")
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        # One transaction: what is read must belong together while another process makes the schema.
        with _transaction(connection, "BEGIN"):
            _check_ours(connection, path)
        add_functions(connection)
        connection.execute("PRAGMA secure_delete = ON")
        # What a statement may have to take back must not lie in a file of its own.
        connection.execute("PRAGMA temp_store = MEMORY")
        # FULL: an append that was acknowledged survives a power cut, not only a killed process, because bills
        # are made from it. NORMAL would save an fsync per append, of which a run makes a few per second.
        connection.execute("PRAGMA synchronous = FULL")
        _use_wal(connection, busy_timeout)
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside, or nothing. The write lock is taken at once: it cannot be missed midway."""
    with _transaction(connection, "BEGIN IMMEDIATE"):
        yield


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read inside is of one moment."""
    with _transaction(connection, "BEGIN"):
        yield


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some failures (a full disk) have rolled back already.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _check_path(path: Path) -> None:
    # Only asks: reading the file here would drop the locks that this process holds on it.
    if path.is_dir():
        raise StorageError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise StorageError(f"the folder of {path} is missing: create {path.parent}, or open another path")
    # SQLite takes a file of one byte for an empty database, and would overwrite it.
    if path.exists() and 0 < path.stat().st_size < SMALLEST:
        raise no_database(path)
    wanted = path if path.exists() else path.parent
    if not os.access(wanted, os.W_OK):
        raise StorageError(f"{wanted} cannot be written to: give this user the right, or open another path")


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless the database is ours or empty."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    known = migrations()[-1][0]
    if application != APPLICATION_ID:
        if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
            raise foreign(path)
    elif version > known:
        raise newer(path, version, known)


def _use_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch to the write-ahead log, in which readers and the writer do not wait for each other."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # For this one statement SQLite does not always wait by itself, when two open a new file.
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
        else:
            return


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _number(connection, "PRAGMA user_version") == migrations()[-1][0]:
        return
    with transaction(connection):
        # Again, now that nobody else can write: another process may have been faster.
        _check_ours(connection, path)
        version = _number(connection, "PRAGMA user_version")
        for number, script in migrations():
            if number > version:
                for statement in statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _number(connection: sqlite3.Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])


_SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """The statements of all files, by name. A `/*word*/` in one is a place to be filled in."""
    found: dict[str, str] = {}
    for path in sorted(_SQL.glob("*.sql")):
        _, *pieces = _NAME.split(path.read_text("utf-8"))
        found.update((name, sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True))
    return found


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """The numbered scripts that make the schema, in order. The last number is the schema's version."""
    found = sorted((_SQL / "migrations").glob("[0-9]*.sql"))
    return tuple((int(path.name.partition("_")[0]), path.read_text("utf-8")) for path in found)


def statements(script: str) -> list[str]:
    """The statements of *script*, one by one: `executescript` would commit what is open."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    return found


_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation])
_WIDE = Context(prec=60)
NANO = Decimal("1e-9")


def hash_key(name: str) -> int:
    """A number to look *name* up by: no index holds the name itself, because an index cannot be erased from."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def account_key(name: str) -> bytes:
    """What an account is kept under. It is long enough that no two accounts share it."""
    return blake2b(name.encode(), digest_size=16).digest()


def to_nano(money: Decimal, *, up: bool) -> int:
    """US dollars as whole billionths, rounded up (a charge) or down (a limit)."""
    return int(money.scaleb(9, _WIDE).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def from_nano(nano: int) -> Decimal:
    """Billionths as US dollars."""
    return Decimal(nano).scaleb(-9, _WIDE)


class _ExactSum:
    """Adds up decimals in text, NULL left out, without rounding."""

    def __init__(self) -> None:
        self._sum = Decimal(0)

    def step(self, value: str | None) -> None:
        """Add one."""
        if value is not None:
            self._sum = _EXACT.add(self._sum, Decimal(value))

    def finalize(self) -> str:
        """The sum."""
        return str(self._sum)


def add_functions(connection: sqlite3.Connection) -> None:
    """Make `hash_key` and `exact_sum` known to *connection*."""
    connection.create_function("hash_key", 1, hash_key, deterministic=True)
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
