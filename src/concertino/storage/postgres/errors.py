"""Translation of PostgreSQL's errors: the database, what happened to it, and the remedy."""

from __future__ import annotations

import psycopg

from ...errors import DatabaseVersionError, StorageError

READ_ONLY = "25006"
OLD_PLAN = "0A000"
"""A statement was prepared before a migration changed the columns of its result."""

_MESSAGES = {
    "08": "cannot be reached: check that the server runs, and the host and port of the URL",
    "22003": "cannot store a number over 64 bits, and wrote nothing",
    "23505": "was written by another process at the same moment, again and again: try again",
    READ_ONLY: "is read-only, as a standby is: use the URL of the primary, or list all hosts in it",
    "28": "refused the login: check the user and the password of the URL",
    "3D000": "does not exist: create it with CREATE DATABASE",
    "40": "could not be written because other transactions changed the same rows: try again",
    "42501": "denied the access: grant the rights that docs/postgres.md lists to the role",
    "53100": "cannot grow because the disk of the server is full: free some space; earlier writes are safe",
    "53300": "has too many connections: close some, raise max_connections, or open the store with fewer",
    "54000": "cannot store a value above PostgreSQL's limits",
    "55P03": "was locked by another transaction for too long: end that transaction",
    "57014": "took too long for a statement, and wrote nothing: check the load of the server",
    "57P": "is being stopped or started: wait until the server runs",
    "XX": "is corrupt: check the server's log, and restore a backup",
}
"""By SQLSTATE or its beginning."""
_UNREACHABLE = "08"
_MAY_PASS = ("08", OLD_PLAN, READ_ONLY, "40", "53300", "55P03", "57P")
"""Errors after which the same work may succeed, on a new connection if the old one is closed."""
_REFUSALS = {
    "authentication failed": "28P01",
    "no password supplied": "28P01",
    "remaining connection slots": "53300",
    "session is read-only": READ_ONLY,
    "too many clients": "53300",
    "permission denied for database": "42501",
    'database "': "3D000",
    'role "': "28000",
}
"""Refusals of a login by their words: the library reports no SQLSTATE."""
_CONFLICT = "23505"
"""Two transactions inserted the same key: the next attempt finds the row of the other."""


def may_pass(error: psycopg.Error) -> bool:
    """Return whether the same work may succeed later."""
    return _state(error).startswith(_MAY_PASS)


def is_conflict(error: psycopg.Error) -> bool:
    """Return whether another transaction inserted the same key first."""
    return _state(error) == _CONFLICT


def explain(error: Exception, name: str) -> StorageError:
    """Return the `StorageError` for *error* at the database *name*."""
    if not isinstance(error, psycopg.Error):
        return StorageError(f"database {name} cannot store a value, and wrote nothing: {error}")
    state = _state(error)
    # The server's details may quote the row, and so content.
    detail = " ".join((error.diag.message_primary or str(error)).split())
    for prefix, message in _MESSAGES.items():
        if state.startswith(prefix):
            return StorageError(f"database {name} {message} ({state}: {detail})")
    return StorageError(f"database {name} failed: {detail} ({state or type(error).__name__})")


def newer(name: str, found: int, known: int) -> DatabaseVersionError:
    """Return the error for a schema of a later version."""
    return DatabaseVersionError(
        f"database {name} has schema version {found}, and this concertino supports version {known}: "
        "install a newer concertino, or use another schema; nothing was written"
    )


def outdated(name: str, found: int, needed: int) -> DatabaseVersionError:
    """Return the error for a schema of an earlier version that the role may not migrate."""
    return DatabaseVersionError(
        f"database {name} has schema version {found}, this concertino needs version {needed}, and the role may not "
        "migrate it: open the database once as the owner of its tables, then repeat the grants of docs/postgres.md"
    )


def foreign(name: str, schema: str) -> DatabaseVersionError:
    """Return the error for a schema with tables of another program."""
    return DatabaseVersionError(
        f"schema {schema!r} of database {name} has tables of another program: use another schema; nothing was written"
    )


def _state(error: psycopg.Error) -> str:
    if error.sqlstate or not isinstance(error, psycopg.OperationalError):
        return error.sqlstate or ""
    # The error comes from the client's library: the connection is lost or was never made.
    text = str(error)
    return next((state for words, state in _REFUSALS.items() if words in text), _UNREACHABLE)
