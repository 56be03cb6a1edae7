"""The watermark: a small file next to the database from which a lost write-ahead log is noticed.

SQLite accepts a database whose write-ahead log was deleted, which then lacks the latest commits. A run would be resumed
from an older state, and a `once` tool might run twice. The watermark is the number of the last journal entry that was
committed. It is written after each commit, so it is never ahead of a complete database. It is not synced: after a power
cut it may lag behind, and detects less.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from ...errors import StorageError
from .statements import queries

_SIZE = 64


class Watermark:
    """The watermark of the database at a path, and the identity of its files while they are open."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log = f"{path}-wal"
        self._mark = f"{path}-watermark"
        self._fd: int | None = None
        self._id = ""
        self._number = 0
        self._files: tuple[object, object] = (None, None)

    def open(self, connection: sqlite3.Connection) -> None:
        """Compare the watermark with the database. Raises `StorageError` if the database went back in time."""
        # Before the database is read: another process may commit at any time, and then advances the watermark.
        known_id, known = self._read()
        self._id = connection.execute(queries()["identity"]).fetchone()[0]
        number = _last(connection)
        if known_id == self._id and known > number:
            raise StorageError(
                f"database {self._path} went back in time: its journal ends at {number}, and {known} was committed. "
                f"Its write-ahead log {self._log} was deleted, or an older copy was restored. Restore the latest copy; "
                f"or check what its runs did since then, and delete {self._mark} to continue from this one"
            )
        with suppress(OSError):  # without the file nothing is detected, and everything else works
            mode = Path(self._path).stat().st_mode & 0o666  # a shared database has a shared mark
            self._fd = os.open(self._mark, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), mode)
        self._write(number)
        self._files = _identity(self._path), _identity(self._log)

    def check_files(self) -> None:
        """Raise `StorageError` if the database or its write-ahead log was removed or replaced while it is open."""
        found = _identity(self._path), _identity(self._log)
        if found == self._files:
            return
        if found[0] != self._files[0]:
            # SQLite would continue to write to the removed file.
            raise StorageError(f"database {self._path} was removed or replaced: restore it, or open the store again")
        raise StorageError(
            f"the write-ahead log {self._log} was removed while the database was open: end every process that uses "
            "the database, restore the log or the latest copy, and open the store again"
        )

    def advance(self, number: int) -> None:
        """Write *number* of an entry that was committed, unless a later one was."""
        if number > self._number:
            self._write(number)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> tuple[str, int]:
        try:
            known_id, _, number = Path(self._mark).read_text("ascii").strip().partition(" ")
            return known_id, int(number)
        except (OSError, ValueError):
            return "", 0

    def _write(self, number: int) -> None:
        self._number = number
        if self._fd is None:
            return
        try:
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, f"{self._id} {number}".ljust(_SIZE).encode())
        except OSError:
            return  # the mark lags behind, and detects less


def _last(connection: sqlite3.Connection) -> int:
    return int(connection.execute(queries()["last_entry"]).fetchone()[0])


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - once per batch of calls: a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino
