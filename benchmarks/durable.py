"""The durable step: runs whose every step is kept in a SQLite file. Beside each run, the same one of the two floors."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from benchmarks.common import SCRIPT, TALLY, Call, Outcome, Script, Turn
from benchmarks.systems import sqlite_insert, sqlite_step
from benchmarks.workloads import Figures, WrongWorkError, check, repeat

SIZE = 1_000
"""Characters of a tool's result, all of them ASCII."""
BIG_STEP = 3
"""Which step of the run with one big result it is, from 1."""
_LOG = 4_000_000
"""Bytes of a log that has been written back once: 1,000 pages, if the system leaves SQLite's default."""
_ROOM = 16_384
"""Bytes that may have been free in the file's pages before."""


class DurableSystem(Protocol):
    """One system that keeps its runs in a file. An adapter module has `build(tool) -> DurableSystem`."""

    async def open(self, path: str) -> None:
        """Make the file and be ready."""
        ...

    async def run(self) -> Outcome:
        """Answer `QUESTION` by `SCRIPT` in a new run. What has happened is on the disk before what follows from it."""
        ...

    async def close(self) -> None:
        """Let go of the file."""
        ...


Build = Callable[[Callable[..., Any]], DurableSystem]


async def fetch(n: int) -> str:
    """Answer at once, with a text of *n* characters that is new each time."""
    TALLY.executions += 1
    return f"{TALLY.executions:012}".ljust(n, "x")


def script(sizes: list[int]) -> Script:
    """One call of `fetch` a turn, for results of these *sizes*, and a closing answer."""
    calls = (Call(f"call_{number}", "fetch", f'{{"n": {size}}}') for number, size in enumerate(sizes))
    return Script((*(Turn(calls=(call,)) for call in calls), Turn(deltas=("done",))))


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took."""

    wall: float
    cpu: float
    """Of the whole process and all its threads, user and system."""
    usage: str


class _Writer:
    """A system with a file of its own."""

    def __init__(self, build: Build, folder: Path) -> None:
        self._system = build(fetch)
        self._folder = folder

    async def open(self, warm: float) -> None:
        """Make the file, and write to it until its log no longer grows, for *warm* seconds at most.

        SQLite then writes over the log, which is cheaper, and how it is from the first minute of a file's life on.
        """
        self._folder.mkdir()
        await self._system.open(str(self._folder / "runs.db"))
        log, end = self._folder / "runs.db-wal", time.perf_counter() + warm
        await self.run([SIZE] * 20)
        while time.perf_counter() < end and log.exists() and log.stat().st_size < _LOG:
            await self.run([SIZE] * 20)

    async def run(self, sizes: list[int]) -> Cost:
        said, executions = script(sizes), TALLY.executions
        SCRIPT.set(said)
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = await self._system.run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        # A system may send less than it keeps; what it keeps is checked by its size.
        return Cost(wall, cpu, check(said, outcome, TALLY.executions - executions, all_shown=False))

    def stored(self) -> int:
        """Bytes on the disk when all of the log has been written back, so that it counts for nothing any more."""
        with closing(sqlite3.connect(self._folder / "runs.db")) as connection:
            busy, log, written_back = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        if busy or log != written_back:
            raise WrongWorkError("the log could not be written back: a reader or writer is still there")
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files if not path.name.endswith(("-wal", "-shm")))

    async def close(self) -> None:
        await self._system.close()


async def durable(build: Build, *, steps: int, at_most: int, seconds: float, warm: float) -> Figures:
    """Runs of *steps* calls with a result of 1 kB: wall, CPU and bytes a step, and the same run of the floors."""
    return await _measured(build, [SIZE] * steps, at_most, seconds, warm)


async def big(build: Build, *, steps: int, megabytes: int, at_most: int, seconds: float, warm: float) -> Figures:
    """The same, with one result of *megabytes*: what a run stores and takes."""
    sizes = [SIZE] * steps
    sizes[BIG_STEP - 1] = megabytes * 1_000_000
    found = await _measured(build, sizes, at_most, seconds, warm)
    return found | {"run_ms": found["ms"] * steps, "mb": found["kb"] * steps / 1e3}


async def _measured(build: Build, sizes: list[int], at_most: int, seconds: float, warm: float) -> Figures:
    with TemporaryDirectory() as folder:
        names = {"own": build, "insert": sqlite_insert.build, "step": sqlite_step.build}
        writers = {name: _Writer(each, Path(folder, name)) for name, each in names.items()}
        try:
            for writer in writers.values():
                await writer.open(warm)
            before = writers["own"].stored()
            costs = await _taking_turns(writers, sizes, at_most, seconds)
            stored = writers["own"].stored() - before
        finally:
            for writer in writers.values():
                await writer.close()
    runs = len(costs["own"])
    if stored + _ROOM < sum(sizes) * runs:
        raise WrongWorkError(f"{runs} runs stored {stored} bytes; their results alone have {sum(sizes) * runs}")
    return _figures(costs, len(sizes), stored / runs)


async def _taking_turns(
    writers: dict[str, _Writer], sizes: list[int], at_most: int, seconds: float
) -> dict[str, list[Cost]]:
    """Runs of all writers in turn, so that what slows the machine for a while slows all alike."""
    costs: dict[str, list[Cost]] = {name: [] for name in writers}

    async def once() -> None:
        for name, writer in writers.items():
            costs[name].append(await writer.run(sizes))

    await repeat(once, at_most, seconds)
    return costs


def _figures(costs: dict[str, list[Cost]], steps: int, stored: float) -> Figures:
    wall = {name: statistics.median(cost.wall for cost in found) / steps * 1e3 for name, found in costs.items()}
    usages = {cost.usage for cost in chain(*costs.values())}
    return {
        "ms": wall["own"],
        "cpu_ms": statistics.median(cost.cpu for cost in costs["own"]) / steps * 1e3,
        "insert_ms": wall["insert"],
        "step_ms": wall["step"],
        "to_insert": wall["own"] / wall["insert"],
        "to_step": wall["own"] / wall["step"],
        "kb": stored / steps / 1e3,
        "runs": len(costs["own"]),
        "usage": "LOST" if "LOST" in usages else "exact",
    }


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {"durable": durable, "big": big}
