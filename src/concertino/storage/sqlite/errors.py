"""SQLite's errors in the words of this library: what happened to which file, and what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ...errors import DatabaseVersionError, StorageError

_NOT_OURS = "open another path; nothing was written to this file"

_SAYS = {
    "SQLITE_BUSY": "is locked by another process: end what holds it, or open with a longer busy_timeout",
    "SQLITE_LOCKED": "is locked by another connection: end what holds it",
    "SQLITE_FULL": "cannot grow, the disk is full: make room; what was written before is safe",
    "SQLITE_CANTOPEN": "cannot be opened: check that its folder exists and that both may be written to",
    "SQLITE_READONLY": "cannot be written to: give this user the right to write to it and to its folder",
    "SQLITE_PERM": "cannot be written to: give this user the right to write to it and to its folder",
    "SQLITE_IOERR": "cannot be read or written, says the system: check the disk and its free space",
    "SQLITE_CORRUPT": "is damaged: restore a backup, or save what can be read with `sqlite3 FILE .recover`",
    "SQLITE_TOOBIG": "cannot hold this: one value is over SQLite's limit of a gigabyte",
}


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection is in the way, so that trying again may help."""
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def explain(error: Exception, path: Path) -> StorageError:
    """The `StorageError` that says what *error* means for the database at *path*."""
    name = _name(error)
    if isinstance(error, UnicodeDecodeError):
        return StorageError(f"database {path} {_SAYS['SQLITE_CORRUPT']} ({error})")
    if not isinstance(error, sqlite3.Error):
        return StorageError(f"database {path} cannot hold a value, and wrote nothing: {error}")
    if name == "SQLITE_NOTADB":
        return no_database(path)
    for prefix, says in _SAYS.items():
        if name.startswith(prefix):
            return StorageError(f"database {path} {says} ({name}: {error})")
    return StorageError(f"database {path} failed: {error} ({name or type(error).__name__})")


def no_database(path: Path) -> DatabaseVersionError:
    """The error for a file that SQLite does not know as its own."""
    return DatabaseVersionError(
        f"{path} is no SQLite database, or its first page is damaged: open another path, or restore a backup"
    )


def foreign(path: Path) -> DatabaseVersionError:
    """The error for a database of another program."""
    return DatabaseVersionError(f"{path} is a SQLite database, but none of concertino: {_NOT_OURS}")


def newer(path: Path, found: int, known: int) -> DatabaseVersionError:
    """The error for a database of a later version."""
    return DatabaseVersionError(
        f"database {path} has schema version {found}, this concertino knows versions up to {known}: "
        "install a newer concertino, or open another path; nothing was written to this file"
    )


def _name(error: Exception) -> str:
    # Not every error of the module comes from SQLite itself; those others have no name.
    return getattr(error, "sqlite_errorname", None) or ""
