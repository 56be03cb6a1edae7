"""Keys in a SQLite file of their own, for the processes of one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from ...errors import StorageError
from ..keys import SqlKeyStore
from ..keys.key_store import SCHEMA, Statement

T = TypeVar("T")

_PATIENCE = 10.0


class KeyFile(SqlKeyStore):
    """`KeyStore` in the file at *path*, which is created if it is missing, readable by its owner only.

    Keep it out of every backup that lives longer than erased content may. With *master*, 32 bytes from a key manager,
    each key is stored encrypted with it. Raises `StorageError` if the file cannot be opened.
    """

    def __init__(self, path: str | Path, master: bytes | None = None) -> None:
        super().__init__(master)
        self._path = Path(path)
        self._lock = Lock()
        try:
            self._path.touch(mode=0o600, exist_ok=True)
            self._connection = sqlite3.connect(
                self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            # A discarded key is overwritten, and its copies in the log go with the log.
            for setting in ("secure_delete = ON", "journal_mode = WAL", "synchronous = FULL"):
                self._connection.execute(f"PRAGMA {setting}").fetchall()
            for statement in SCHEMA:
                self._connection.execute(statement.format(blob="BLOB"))
        except (OSError, sqlite3.Error) as error:
            raise self._failed(error) from error

    def discard(self, ids: Sequence[str]) -> None:
        """Erase the keys with these *ids*."""
        super().discard(ids)
        with self._lock, suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        with self._lock:
            self._connection.close()

    def _transaction(self, work: Callable[[Statement], T]) -> T:
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                with self._connection:
                    return work(self._execute)
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _execute(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return self._connection.execute(sql, values).fetchall()

    def _failed(self, error: Exception) -> StorageError:
        return StorageError(f"the keys in {self._path} cannot be used: {error}; check the file and its folder")
