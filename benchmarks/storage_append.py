"""What an append costs beside a bare insert: `python -m benchmarks.storage_append [--folder FOLDER]`.

Both write a message of 1 kB to a file of the same settings and commit; the append writes a usage row, too. In
a folder in memory (/dev/shm) the disk costs nothing, and what is left is the processor's part.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from concertino.messages import UserMessage
from concertino.storage.port import Batch, RunStart, StoredMessage
from concertino.storage.sqlite import SqliteStore
from concertino.usage import Tokens, UsageRecord

TEXT = "x" * 1000
BLOCK = 50
"""Writes of one kind in a row; the kinds take turns, so that the machine's moods meet both."""


def start(run_id: str) -> RunStart:
    """The beginning of a run."""
    return RunStart(
        run_id=run_id,
        root_id=run_id,
        parent_id=None,
        parent_call=None,
        agent="agent",
        agent_path="agent",
        conversation_id="conversation",
        user_id="user",
        organization_id="organization",
        task="",
        started=time.time(),
    )


def batch(run_id: str, number: int) -> Batch:
    """A message of 1 kB and a usage record."""
    record = UsageRecord(
        id=f"{run_id}/{number}",
        run_id=run_id,
        agent_path="agent",
        provider="provider",
        model="model",
        tokens=Tokens(100, 10),
        cost=Decimal("0.001"),
    )
    return Batch(run_id=run_id, messages=[StoredMessage(message=UserMessage(TEXT))], usage=[record])


def bare(path: Path) -> sqlite3.Connection:
    """A connection with the store's settings and one plain table."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("CREATE TABLE bare (run_id TEXT, body TEXT)")
    return connection


def insert(connection: sqlite3.Connection) -> float:
    """The seconds that a bare insert and its commit take."""
    begun = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO bare VALUES ('r', ?)", (TEXT,))
    connection.execute("COMMIT")
    return time.perf_counter() - begun


async def append(store: SqliteStore, what: Batch) -> float:
    """The seconds that an append takes, as its caller sees them."""
    begun = time.perf_counter()
    await store.append(what)
    return time.perf_counter() - begun


async def measure(folder: Path, writes: int) -> tuple[list[float], list[float]]:
    """The seconds of each bare insert, and of each append."""
    inserts: list[float] = []
    appends: list[float] = []
    with closing(bare(folder / "bare.db")) as connection:
        async with await SqliteStore.open(folder / "store.db") as store:
            await store.begin(start("r"))
            for block in range(0, writes, BLOCK):
                inserts.extend(insert(connection) for _ in range(BLOCK))
                appends.extend([await append(store, batch("r", block + each)) for each in range(BLOCK)])
    return inserts, appends


def micros(seconds: Iterable[float]) -> float:
    """The median, in microseconds."""
    return statistics.median(seconds) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; else the temporary folder")
    parser.add_argument("--writes", type=int, default=2000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        inserts, appends = asyncio.run(measure(Path(folder), asked.writes))
    tenth = len(appends) // 10
    print(f"bare insert + commit      {micros(inserts):8.1f} us (median of {len(inserts)})")
    print(f"append message + usage    {micros(appends):8.1f} us")
    print(f"ratio                     {micros(appends) / micros(inserts):8.2f}")
    print(f"last tenth / first tenth  {micros(appends[-tenth:]) / micros(appends[:tenth]):8.2f}")


if __name__ == "__main__":
    main()
