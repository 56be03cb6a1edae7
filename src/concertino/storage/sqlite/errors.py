"""Translation of SQLite's errors: the file, what happened to it, and the remedy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ...errors import DatabaseVersionError, StorageError
from .locks import Writer, find_writer

_UNTOUCHED = "nothing was written to this file"

_MESSAGES = {
    "SQLITE_BUSY": "is locked by another process: end that process, or open with a longer busy_timeout",
    "SQLITE_LOCKED": "is locked by another connection: close it",
    "SQLITE_FULL": "cannot grow because the disk is full: free some space; earlier writes are safe",
    "SQLITE_CANTOPEN": "cannot be opened: check that its folder exists and that both are writable",
    "SQLITE_READONLY": "is read-only: open it without read_only, and grant this user write access to it and its folder",
    "SQLITE_PERM": "is not writable: grant this user write access to it and to its folder",
    "SQLITE_IOERR": "cannot be read or written: check the disk and its free space",
    "SQLITE_CORRUPT": "is corrupt: restore a backup, or save what is readable with `sqlite3 FILE .recover`",
    "SQLITE_TOOBIG": "cannot store a value above SQLite's limit of a gigabyte",
}


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether another connection's lock caused *error*, so that a retry may succeed."""
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def explain(error: Exception, path: Path) -> StorageError:
    """Return the `StorageError` for *error* at the database *path*."""
    name = _name(error)
    if isinstance(error, UnicodeDecodeError):
        return StorageError(f"database {path} {_MESSAGES['SQLITE_CORRUPT']} ({error})")
    if not isinstance(error, sqlite3.Error):
        return StorageError(f"database {path} cannot store a value, and wrote nothing: {error}")
    if name == "SQLITE_NOTADB":
        return not_a_database(path)
    if name.startswith("SQLITE_BUSY") and (writer := find_writer(path)) is not None:
        return _locked(path, writer, name)
    for prefix, message in _MESSAGES.items():
        if name.startswith(prefix):
            return StorageError(f"database {path} {message} ({name}: {error})")
    return StorageError(f"database {path} failed: {error} ({name or type(error).__name__})")


def _locked(path: Path, writer: Writer, name: str) -> StorageError:
    if writer.stopped:
        return StorageError(
            f"database {path} is locked by process {writer.pid}, which was stopped in the middle of a write: continue "
            f"it with `kill -CONT {writer.pid}`, or end it with `kill -KILL {writer.pid}` ({name})"
        )
    return StorageError(
        f"database {path} is locked by process {writer.pid}: end that process, or open with a longer busy_timeout "
        f"({name})"
    )


def not_a_database(path: Path) -> DatabaseVersionError:
    """Return the error for a file that SQLite does not recognize."""
    return DatabaseVersionError(
        f"{path} is not a SQLite database, or its first page is corrupt: open another path, or restore a backup"
    )


def foreign(path: Path) -> DatabaseVersionError:
    """Return the error for another program's database."""
    return DatabaseVersionError(f"{path} is a SQLite database of another program: open another path; {_UNTOUCHED}")


def newer(path: Path, found: int, known: int) -> DatabaseVersionError:
    """Return the error for a database of a later schema version."""
    return DatabaseVersionError(
        f"database {path} has schema version {found}, and this concertino supports version {known}: "
        f"install a newer concertino, or open another path; {_UNTOUCHED}"
    )


def older(path: Path, found: int, known: int) -> DatabaseVersionError:
    """Return the error for a database of an earlier, unreleased schema version."""
    return DatabaseVersionError(
        f"database {path} has schema version {found}, and this concertino supports version {known}: "
        f"open another path, or read it with the concertino that wrote it; {_UNTOUCHED}"
    )


def _name(error: Exception) -> str:
    # Not every error of the module comes from SQLite itself; those others have no name.
    return getattr(error, "sqlite_errorname", None) or ""
