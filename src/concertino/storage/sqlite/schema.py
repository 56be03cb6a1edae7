"""Opening a database: check that it is concertino's, and create the schema in a new one."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

from ...errors import StorageError
from ...ids import token
from .connection import IN_MEMORY, SqliteSession
from .errors import foreign, is_locked, newer, not_a_database, older
from .statements import add_functions

APPLICATION_ID = 0x434E4354
"""Marks a SQLite file as concertino's ("CNCT")."""
SCHEMA_VERSION = 10
"""Written to `user_version`. Databases of other versions are refused."""
MIN_FILE_SIZE = 512
"""Bytes of the smallest SQLite database."""
MIN_SQLITE = (3, 35, 0)
"""The first version of SQLite with RETURNING."""

_SCHEMA = Path(__file__).parent / "schema.sql"
_COLUMNS = (("consumers", "agents", "TEXT"),)
"""The columns that were added within this schema version: table, name and type."""
_INDEX = re.compile(r"^CREATE INDEX (\w+)", re.MULTILINE)


def connect_in_memory() -> SqliteSession:
    """Return a connection to a new database without a file. Any thread may use it, one at a time."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=SqliteSession)
    connection.row_factory = sqlite3.Row
    add_functions(connection)
    _create(connection, IN_MEMORY)
    return connection


def connect(path: Path, busy_timeout: float) -> SqliteSession:
    """Return a connection to the database at *path*, which is created if it is missing.

    Raises `StorageError` if the path cannot be used, `DatabaseVersionError` for another program's database or another
    schema version, in which case nothing was written, and `sqlite3.Error`.
    """
    _check_path(path)
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        raise StorageError(f"SQLite {sqlite3.sqlite_version} is too old: install a Python with SQLite 3.35 or newer")
    _create_private(path)
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, factory=SqliteSession)
    connection.row_factory = sqlite3.Row
    try:
        # One transaction: the checks must see one state while another process creates the schema.
        with connection.reading():
            _check_owner(connection, path)
        add_functions(connection)
        connection.execute("PRAGMA secure_delete = ON")
        # Statement journals must not be written to a file of their own.
        connection.execute("PRAGMA temp_store = MEMORY")
        # FULL: an acknowledged append survives a power cut, not only a killed process, because bills are made from it.
        # NORMAL would save one fsync per append.
        connection.execute("PRAGMA synchronous = FULL")
        _use_wal(connection, busy_timeout)
        _add_missing(connection)
        if _create(connection, path):
            # The file alone is a database from now on, also if its write-ahead log is lost.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def connect_read_only(path: Path, busy_timeout: float) -> SqliteSession:
    """Return a connection that reads the database at *path*, also on a read-only file system.

    Raises `StorageError` if it is missing or cannot be read whole, `DatabaseVersionError` as `connect` does, and
    `sqlite3.Error`.
    """
    if not path.is_file():
        raise StorageError(f"{path} does not exist: check the path")
    if path.stat().st_size < MIN_FILE_SIZE:
        raise not_a_database(path)
    try:
        return _open_uri(path, "mode=ro", busy_timeout)
    except sqlite3.OperationalError:
        # Reading a write-ahead log needs an index next to it, which cannot be created on a read-only file system.
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise StorageError(
                f"{path} cannot be read without writing, because {log.name} has changes that are not in it yet: "
                "copy both files to a writable folder, and open the copy"
            ) from None
        return _open_uri(path, "mode=ro&immutable=1", busy_timeout)


def _open_uri(path: Path, options: str, busy_timeout: float) -> SqliteSession:
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=busy_timeout, isolation_level=None, factory=SqliteSession)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA query_only = ON")
        with connection.reading():
            _check_owner(connection, path, may_be_empty=False)
        add_functions(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_path(path: Path) -> None:
    # Only metadata: opening and closing the file here would drop the locks that this process has on it.
    if path.is_dir():
        raise StorageError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise StorageError(f"the folder of {path} is missing: create {path.parent}, or open another path")
    # SQLite takes a file of one byte for an empty database, and would overwrite it.
    if path.exists() and 0 < path.stat().st_size < MIN_FILE_SIZE:
        raise not_a_database(path)
    wanted = path if path.exists() else path.parent
    if not os.access(wanted, os.W_OK):
        raise StorageError(f"{wanted} is not writable: grant this user write access, or open it with read_only=True")


def _create_private(path: Path) -> None:
    """Create a missing file that only this user can read. SQLite gives its log and index the mode of the file."""
    # An existing file is not opened, as above, and keeps the mode that its owner gave it.
    with suppress(OSError):
        os.close(os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _check_owner(connection: SqliteSession, path: Path, *, may_be_empty: bool = True) -> None:
    """Raise unless the database is concertino's, or empty where that is allowed."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application != APPLICATION_ID:
        if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
            raise foreign(path)
        if not may_be_empty:
            raise StorageError(f"{path} is an empty database: check the path")
    elif version > SCHEMA_VERSION:
        raise newer(path, version, SCHEMA_VERSION)
    elif version < SCHEMA_VERSION:
        raise older(path, version, SCHEMA_VERSION)


def _use_wal(connection: SqliteSession, busy_timeout: float) -> None:
    """Switch to the write-ahead log, in which readers and the writer do not block each other."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # For this statement SQLite does not always wait by itself while two processes open a new file.
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
        else:
            return


def _create(connection: SqliteSession, path: Path) -> bool:
    """Create the schema in an empty database. Return whether it was empty."""
    if _number(connection, "PRAGMA user_version") == SCHEMA_VERSION:
        return False
    with connection.transaction():
        # Again, now with the write lock: another process may have been faster.
        _check_owner(connection, path)
        if _number(connection, "PRAGMA user_version") == SCHEMA_VERSION:
            return False
        for statement in schema():
            connection.execute(statement)
        connection.execute("INSERT INTO identity (id) VALUES (?)", (token(),))
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return True


def _add_missing(connection: SqliteSession) -> None:
    """Add the columns and indexes that a later concertino of this schema version has. An earlier one ignores them."""
    if _number(connection, "PRAGMA user_version") == SCHEMA_VERSION and _missing(connection):
        with connection.transaction():
            for statement in _missing(connection):  # another process may have been faster
                connection.execute(statement)


def _missing(connection: SqliteSession) -> list[str]:
    """Return the statements that add the columns and indexes that the database lacks."""
    columns = [
        f"ALTER TABLE {table} ADD COLUMN {name} {kind}"
        for table, name, kind in _COLUMNS
        if name not in {row[1] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()}
    ]
    known = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()}
    return columns + [sql for sql in schema() if (found := _INDEX.search(sql)) and found[1] not in known]


def _number(connection: SqliteSession, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])


@cache
def schema() -> tuple[str, ...]:
    """Return the statements of the schema, one by one: `executescript` would commit the open transaction."""
    found, pending = [], ""
    for line in _SCHEMA.read_text("utf-8").splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    return tuple(found)
