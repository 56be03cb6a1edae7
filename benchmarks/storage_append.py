"""The cost of a step in the store, next to a bare insert: `python -m benchmarks.storage_append [--folder FOLDER]`.

A step is two appends: `asking` (a tool's message of 1 kB, and the entry's structure of 300 B) and `answered` (an
assistant's message of 200 B, its usage record, and the same structure). The floor writes 1 kB to a file with the same
settings and commits. In a folder in memory (/dev/shm) the disk costs nothing, and what is left is the processor's part.
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

from concertino import OPERATOR, Scope
from concertino.messages import AssistantMessage, Message, Text, ToolMessage
from concertino.storage.sqlite import SqliteStore
from concertino.storage.types import Claim, Entry, EntryKind, EntryMessage, RunStart
from concertino.usage import Tokens, UsageRecord

RUN = "run_0193a1b2c3d4e5f60718293a4b5c6d7e8f90"
SCOPE = Scope("tenant", "user")
CLAIM = Claim(root_id=RUN, scope=SCOPE, epoch=1, owner="benchmark", seconds=3600)
BLOCK = 50
"""Writes of one kind in a row. The kinds alternate, so that a slow moment of the machine slows both."""
BODY = {"model": "vendor:model-2026-01", "window": [0, 12, 4096], "calls": [{"id": "x" * 32, "n": n} for n in range(5)]}


def start() -> RunStart:
    """Return the first entry of the run."""
    return RunStart(
        run_id=RUN,
        root_id=RUN,
        parent_id=None,
        parent_call=None,
        agent="agent",
        agent_path="agent",
        conversation_id="conversation",
        scope=SCOPE,
        task="",
        started=time.time(),
    )


def entry(kind: EntryKind, seq: int, message: Message, usage: Iterable[UsageRecord] = ()) -> Entry:
    """Return an entry with one message."""
    held = EntryMessage(message=message, tokens=250, keep=message)
    return Entry(run_id=RUN, seq=seq, claim=CLAIM, kind=kind, step=seq // 2, body=BODY, messages=[held], usage=[*usage])


def step(number: int, text: str) -> tuple[Entry, Entry]:
    """Return the two entries of a step."""
    record = UsageRecord(
        id=f"{RUN}:{number}:1",
        run_id=RUN,
        agent_path="agent",
        provider="provider",
        model="model-2026-01",
        tokens=Tokens(1000, 100, 800),
        cost=Decimal("0.00123"),
        price_version="2026-01",
    )
    asking = entry("model_requested", 2 * number - 1, ToolMessage(f"call_{number:024d}", "search", text))
    answer = AssistantMessage((Text("y" * 200),), model="model-2026-01")
    return asking, entry("model_answered", 2 * number, answer, [record])


def bare(path: Path) -> sqlite3.Connection:
    """Return a database with the settings of a store, and one table."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE bare (run_id TEXT, body TEXT)")
    return connection


def insert(connection: sqlite3.Connection) -> tuple[float, float]:
    """Return the wall and CPU seconds of a bare insert with its commit."""
    begun, used = time.perf_counter(), time.process_time()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO bare VALUES ('r', ?)", ("x" * 1000,))
    connection.execute("COMMIT")
    return time.perf_counter() - begun, time.process_time() - used


async def append(store: SqliteStore, what: Entry) -> tuple[float, float]:
    """Return the wall seconds of an append as its caller sees them, and the CPU seconds of all threads."""
    begun, used = time.perf_counter(), time.process_time()
    await store.append(what)
    return time.perf_counter() - begun, time.process_time() - used


async def measure(folder: Path, steps: int) -> tuple[list[list[tuple[float, float]]], dict[int, float]]:
    """Return the costs of each bare insert, `asking` and `answered`, and the bytes of a step by number of steps."""
    inserts: list[tuple[float, float]] = []
    appends: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    sizes: dict[int, float] = {}
    with closing(bare(folder / "bare.db")) as connection:
        async with await SqliteStore.open(folder / "store.db") as store:
            await store.begin(start(), Entry(run_id=RUN, seq=0, claim=CLAIM, kind="started", body=BODY), CLAIM)
            empty = await size(store, folder / "store.db")
            for number in range(1, steps + 1):
                if number % BLOCK == 1:
                    inserts.extend(insert(connection) for _ in range(BLOCK))
                for taken, what in zip(appends, step(number, "x" * 1000), strict=True):
                    taken.append(await append(store, what))
                if number in (20, 200, 2000):
                    sizes[number] = (await size(store, folder / "store.db") - empty) / number
    return [inserts, *appends], sizes


async def size(store: SqliteStore, path: Path) -> int:
    """Return the bytes of the file after a checkpoint."""
    await store.sweep(OPERATOR)
    return await asyncio.to_thread(lambda: path.stat().st_size)


async def large(folder: Path) -> float:
    """Return the bytes stored for a result of 10 MB, relative to its own."""
    path = folder / "large.db"
    async with await SqliteStore.open(path) as store:
        await store.begin(start(), Entry(run_id=RUN, seq=0, claim=CLAIM, kind="started"), CLAIM)
        empty = await size(store, path)
        for what in step(1, "x" * 10_000_000):
            await store.append(what)
        return (await size(store, path) - empty) / 10_000_000


def micros(seconds: Iterable[float]) -> float:
    """Return the median in microseconds."""
    return statistics.median(seconds) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; else the temporary folder")
    parser.add_argument("--steps", type=int, default=2000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        times, sizes = asyncio.run(measure(Path(folder), asked.steps))
        whole = asyncio.run(large(Path(folder)))
    floor = micros(wall for wall, _ in times[0])
    print(f"median of {asked.steps}                wall us  processor us   ratio of wall")
    for name, taken in zip(("bare insert + commit", "append: asking", "append: answered"), times, strict=True):
        wall, used = micros(wall for wall, _ in taken), micros(used for _, used in taken)
        print(f"{name:<22} {wall:13.1f} {used:13.1f} {wall / floor:15.2f}")
    steps = [one[0] + other[0] for one, other in zip(times[1], times[2], strict=True)]
    print(f"a step, beside two bare inserts {micros(steps) / (2 * floor):32.2f}")
    tenth = len(steps) // 10
    print(f"last tenth / first tenth {micros(steps[-tenth:]) / micros(steps[:tenth]):39.2f}")
    for number, grown in sizes.items():
        print(f"bytes of a step, after {number:5d} {grown:36.0f}")
    print(f"bytes of a result of 10 MB, beside its own {whole:21.2f}")


if __name__ == "__main__":
    main()
