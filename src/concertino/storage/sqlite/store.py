"""The store in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ...usage import UsageRecord
from ..port import Batch, Memory, RunStart, StoredMessage, StoredRun
from . import writing
from .queries import queries
from .rows import to_message, to_run, to_usage
from .worker import Worker

T = TypeVar("T")

BUSY_TIMEOUT = 10.0
"""Seconds to wait for another process that writes to the same file."""


class SqliteStore:
    """`Store` and `Memories` in one file, which several processes may use at once.

    Every method may raise `StorageError`, which names the file and the remedy. A cancelled caller leaves
    nothing half-done: what it asked for is carried out.
    """

    def __init__(self, worker: Worker) -> None:
        """Not for callers: use `open`."""
        self._worker = worker

    @classmethod
    async def open(cls, path: str | Path, *, busy_timeout: float = BUSY_TIMEOUT) -> Self:
        """The store at *path*; the file is made if it is missing, its folder is not.

        DatabaseVersionError: the file was written by a newer concertino, or it is no database of concertino;
        it is left as it was. StorageError: it cannot be opened.
        """
        worker = Worker(Path(path), busy_timeout)
        await worker.open()
        return cls(worker)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def begin(self, start: RunStart) -> None:
        """Note that a run has begun. Beginning the same run again changes nothing."""
        await self._worker.do(lambda connection: writing.begin(connection, start))

    async def append(self, batch: Batch) -> None:
        """Add to the end of a run, in one transaction. When it returns, the batch survives a power cut.

        StorageError: the run, or that of a usage record, was never begun; something cannot be stored; or the
        run has ended and the batch is more than usage. An attempt that is billed late may still be booked.
        """
        await self._worker.do(lambda connection: writing.append(connection, batch))

    async def run(self, run_id: str) -> StoredRun | None:
        """One run; None if it was never begun."""
        found = await self._all("run", {"run_id": run_id}, to_run)
        return found[0] if found else None

    async def runs(
        self, *, conversation_id: str | None = None, root_id: str | None = None, limit: int = 50
    ) -> Sequence[StoredRun]:
        """Runs, newest first; those of one conversation or of one tree, or of both, if asked."""
        everything = "runs" if conversation_id is None else "runs_of_conversation"
        name = everything if root_id is None else "runs_of_root"
        bound = {"conversation_id": conversation_id, "root_id": root_id, "limit": max(limit, 0)}
        return await self._all(name, bound, to_run)

    async def messages(self, run_id: str) -> Sequence[StoredMessage]:
        """The messages of a run, in the order of their appending; none for a run that was never begun."""
        return await self._all("messages", (run_id,), to_message)

    async def usage(self, root_id: str) -> Sequence[UsageRecord]:
        """All usage records of a run and its sub-agents, in the order of their booking."""
        return await self._all("usage", (root_id,), to_usage)

    async def remember(self, owner: str, text: str) -> Memory:
        """Keep *text* for *owner*; the same text again is the same memory, with its first time."""
        return await self._worker.do(lambda connection: writing.remember(connection, owner, text))

    async def recall(self, owner: str, query: str, limit: int = 5) -> Sequence[Memory]:
        """The memories of *owner* with words of *query*, the best first (BM25); without one, the newest."""
        most = max(limit, 0)
        return await self._worker.do(lambda connection: tuple(writing.recall(connection, owner, query, most)))

    async def close(self) -> None:
        """Finish what was asked for, then release the file. May be called twice."""
        await self._worker.close()

    async def _all(
        self, name: str, bound: dict[str, Any] | tuple[Any, ...], build: Callable[[sqlite3.Row], T]
    ) -> tuple[T, ...]:
        def read(connection: sqlite3.Connection) -> tuple[T, ...]:
            # All rows at once: a damaged one must not leave a reading transaction open.
            rows = connection.execute(queries()[name], bound).fetchall()
            return tuple(build(row) for row in rows)

        return await self._worker.do(read)
