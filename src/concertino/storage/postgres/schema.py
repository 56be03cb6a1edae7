"""The schema in the database: its migrations, each in one transaction, and one process at a time."""

from __future__ import annotations

import logging
import random
import re
import time
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from ...ids import token
from .errors import foreign, newer, outdated

log = logging.getLogger("concertino")

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x434E4354
"""Key of the advisory lock ("CNCT") under which one process migrates while the others wait."""
_TRIES = 50
"""Attempts at a migration that ends in deadlocks."""
_REPORTED = (1, 10, 60)
"""The waits of a migration that are reported, and each multiple of the last."""
_HOLDERS = """
    SELECT DISTINCT a.pid, a.usename FROM pg_locks AS l
    JOIN pg_class AS c ON c.oid = l.relation JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.granted
        AND c.relnamespace = to_regnamespace(%s) AND l.pid <> pg_backend_pid()
    ORDER BY a.pid LIMIT 5
"""
"""The sessions with locks on tables of a schema."""


@cache
def migrations() -> tuple[str, ...]:
    """Return the text of each migration: the first makes version 1 of the schema."""
    return tuple(path.read_text("utf-8") for path in sorted(_MIGRATIONS.glob("[0-9]*.sql")))


def migrate(connection: psycopg.Connection[Any], schema: str, name: str) -> None:
    """Bring the *schema* of the database *name* to the newest version. A process that was killed leaves whole versions.

    Raises `DatabaseVersionError` if the schema is newer, of another program, or older while this role may not
    migrate it; and `psycopg.Error`.
    """
    if _version(connection, schema) == len(migrations()):
        return
    _lock(connection, schema)
    version = None
    try:
        version = _version(connection, schema)
        if version is None:
            if _has_tables(connection, schema):
                raise foreign(name, schema)
            version = 0
        if version > len(migrations()):
            raise newer(name, version, len(migrations()))
        for number, text in enumerate(migrations()[version:], version + 1):
            _apply(connection, schema, number, text)
    except psycopg.errors.InsufficientPrivilege as error:
        if not version:
            raise
        raise outdated(name, version, len(migrations())) from error
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s::int, hashtext(%s))", (_LOCK, schema))


def _lock(connection: psycopg.Connection[Any], schema: str) -> None:
    """Wait until no other process migrates the schema. A wait of a second is logged."""
    lock = "SELECT pg_advisory_lock(%s::int, hashtext(%s))"
    connection.execute("SET lock_timeout = '1s'")
    try:
        connection.execute(lock, (_LOCK, schema))
    except psycopg.errors.LockNotAvailable:
        log.warning("another process migrates the schema %s: this one starts when it has ended", schema)
        connection.execute("SET lock_timeout = 0")
        connection.execute(lock, (_LOCK, schema))
    connection.execute("SET lock_timeout = 0")


def _apply(connection: psycopg.Connection[Any], schema: str, number: int, text: str) -> None:
    deadlocks, waits = 0, 0
    while True:
        try:
            return _apply_once(connection, schema, number, text)
        except psycopg.errors.DeadlockDetected:  # processes at work lock the tables in other orders than a migration
            if (deadlocks := deadlocks + 1) == _TRIES:
                raise
            longest = 0.01 * 2**deadlocks
        except psycopg.errors.LockNotAvailable:
            if (waits := waits + 1) in _REPORTED or waits % _REPORTED[-1] == 0:
                _report_wait(connection, schema, number)
            longest = 1.0
        time.sleep(min(longest, 1.0) * random.random())  # noqa: S311 - to meet other transactions


def _apply_once(connection: psycopg.Connection[Any], schema: str, number: int, text: str) -> None:
    with connection.transaction():
        # A long transaction, such as that of a backup, would else make all others wait behind the migration.
        connection.execute("SET LOCAL lock_timeout = '1s'")
        if number == 1:
            create_schema(connection, schema)
        connection.execute(text)
        if number == 1:
            connection.execute("INSERT INTO identity (id, version) VALUES (%s, 0)", (token(),))
        connection.execute("UPDATE identity SET version = %s", (number,))


def _report_wait(connection: psycopg.Connection[Any], schema: str, number: int) -> None:
    holders = connection.execute(_HOLDERS, (schema,)).fetchall()
    shown = ", ".join(f"process {pid} of {role}" for pid, role in holders) or "processes that have ended meanwhile"
    log.warning(
        "version %d of the schema %s waits for transactions of %s: let them end, or end them by pg_terminate_backend",
        number, schema, shown,
    )  # fmt: skip


def _version(connection: psycopg.Connection[Any], schema: str) -> int | None:
    """Return the version of the schema; None if it has none."""
    table = sql.Identifier(schema, "identity")
    found = connection.execute("SELECT to_regclass(%s)", (table.as_string(connection),)).fetchone()
    if found is None or found[0] is None:
        return None
    try:
        row = connection.execute(sql.SQL("SELECT version FROM {}").format(table)).fetchone()
    except psycopg.errors.UndefinedColumn:
        return None  # another program's table of this name
    return None if row is None else int(row[0])


def _has_tables(connection: psycopg.Connection[Any], schema: str) -> bool:
    found = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s LIMIT 1"
    return connection.execute(found, (schema,)).fetchone() is not None


def create_schema(connection: psycopg.Connection[Any], schema: str) -> None:
    """Create *schema* if it is missing. `IF NOT EXISTS` alone needs the right to create schemas even if it exists."""
    if connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))


def check_name(schema: str) -> str:
    """Return *schema* if it can be a name. Raises `ValueError`."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise ValueError(f"invalid schema {schema!r}: use lowercase letters, digits and _")
    return schema
