"""The store in one SQLite file, and the same without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from .adapter import SqlStore
from .worker import Inline, Worker

BUSY_TIMEOUT = 10.0
"""Seconds to wait for another process that writes to the same file."""


class SqliteStore(SqlStore):
    """`Store` and `Memories` in one file, which several processes may use at once: `SqliteStore.open(path)`."""

    @classmethod
    async def open(cls, path: str | Path, *, busy_timeout: float = BUSY_TIMEOUT) -> Self:
        """The store at *path*; the file is made if it is missing, its folder is not.

        DatabaseVersionError: the file was written by a newer concertino, or it is no database of concertino;
        it is left as it was. StorageError: it cannot be opened.
        """
        worker = Worker(Path(path), busy_timeout)
        await worker.open()
        return cls(worker)


class MemoryStore(SqlStore):
    """`Store` and `Memories` that live as long as this object: the same SQL, without a file and without a thread."""

    def __init__(self) -> None:
        """A store with nothing in it. It is made at its first use."""
        super().__init__(Inline())
