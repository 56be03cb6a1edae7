"""The stores on SQLite: the ports of `storage.base` on one connection."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Self

from ..sql.store import SqlStore
from .connection import InlineConnection, ThreadConnection
from .schema import connect, connect_in_memory, connect_read_only
from .watermark import Watermark

BUSY_TIMEOUT = 10.0
"""Seconds to wait for another process that writes to the same file."""


class SqliteStore(SqlStore):
    """`Store` and `Memories` in one file, which several processes may use at once: `SqliteStore.open(path)`."""

    @classmethod
    async def open(cls, path: str | Path, *, busy_timeout: float = BUSY_TIMEOUT, read_only: bool = False) -> Self:
        """Open the store at *path*. A missing file is created, but not its folder.

        With *read_only*, nothing is written or created: a backup or a database on a read-only file system can be read,
        and writing raises `StorageError`.

        Raises `DatabaseVersionError` if the file has another schema version or belongs to another program, in which
        case it is not changed, and `StorageError` if it cannot be opened.
        """
        path = Path(path)
        opened = partial(connect_read_only if read_only else connect, path, busy_timeout)
        connection = ThreadConnection(path, opened, None if read_only else Watermark(path))
        await connection.open()
        return cls(connection)


class MemoryStore(SqlStore):
    """`Store` and `Memories` in memory: the same SQL as `SqliteStore`, without a file and without a thread."""

    def __init__(self) -> None:
        """Create an empty store."""
        super().__init__(InlineConnection(connect_in_memory))
