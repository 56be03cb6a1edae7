"""Durable steps: runs whose every step is written to a SQLite file, alternating with three floors.

The floors are a bare insert per step, a fenced step, and the system's own rows in as many bare transactions.
"""

from __future__ import annotations

import asyncio
import gc
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
from benchmarks.sqlite_log import written
from benchmarks.sqlite_rows import BareRows
from benchmarks.systems import sqlite_insert, sqlite_step
from benchmarks.workloads import Figures, WrongWorkError, check, repeat

SIZE = 1_000
"""Characters of a tool's result, all of them ASCII."""
BIG_STEP = 3
"""The step with the big result, counted from 1."""
_LOG = 4_000_000
"""Bytes of a log at its first checkpoint: 1,000 pages by SQLite's default."""
_ROOM = 16_384
"""Bytes that may have been free in the file's pages before the measurement."""


class DurableSystem(Protocol):
    """A system that stores its runs in a file. An adapter module has `build(tool) -> DurableSystem`."""

    async def open(self, path: str) -> None:
        """Create the file and connect to it."""
        ...

    async def run(self) -> Outcome:
        """Answer `QUESTION` by `SCRIPT` in a new run. Each event is on the disk before its consequences."""
        ...

    async def close(self) -> None:
        """Close the file."""
        ...


Build = Callable[[Callable[..., Any]], DurableSystem]


async def fetch(n: int) -> str:
    """Return a text of *n* characters that is new each time."""
    TALLY.executions += 1
    return f"{TALLY.executions:012}".ljust(n, "x")


def script(sizes: list[int]) -> Script:
    """Return a script with one call of `fetch` a turn, for results of these *sizes*, and a closing answer."""
    calls = (Call(f"call_{number}", "fetch", f'{{"n": {size}}}') for number, size in enumerate(sizes))
    return Script((*(Turn(calls=(call,)) for call in calls), Turn(deltas=("done",))))


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run."""

    wall: float
    cpu: float
    """User and system time of the whole process, all threads included."""
    usage: str


class _Writer:
    """A system with a file of its own."""

    def __init__(self, build: Build, folder: Path) -> None:
        self._system = build(fetch)
        self._folder = folder
        self.path = folder / "runs.db"
        self.commits: tuple[int, int] | None = None
        """The transactions of a run of one step and of ten more steps; None if they could not be counted."""

    async def open(self, warm: float) -> None:
        """Make the file, and write to it until its log no longer grows, for *warm* seconds at most.

        From then on SQLite overwrites the log, as it does from the first minute of a file on, and that is cheaper.
        """
        self._folder.mkdir()
        await self._system.open(str(self.path))
        end = time.perf_counter() + warm
        await self._count(self._log)
        await self.run([SIZE] * 20)
        while time.perf_counter() < end and 0 < self._logged() < _LOG:
            await self.run([SIZE] * 20)

    @property
    def _log(self) -> Path:
        return Path(f"{self.path}-wal")

    def _logged(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    async def _count(self, log: Path) -> None:
        await self.run([SIZE])
        try:
            before = written(log)
            await self.run([SIZE])
            one = written(log)
            await self.run([SIZE] * 11)
            many = written(log)
        except (OSError, ValueError):
            return
        of_one, of_many = one.since(before).commits, many.since(one).commits
        self.commits = of_one, of_many - of_one

    def commits_of(self, steps: int) -> int:
        """Return the transactions of a run of *steps*."""
        assert self.commits is not None
        of_one, of_ten_more = self.commits
        return round(of_one + (steps - 1) * of_ten_more / 10)

    async def run(self, sizes: list[int]) -> Cost:
        """Run once, with results of these *sizes*."""
        return await self.run_many(sizes, 1)

    async def run_many(self, sizes: list[int], runs: int) -> Cost:
        """Start *runs* at once."""
        scripts, executions = [script(sizes) for _ in range(runs)], TALLY.executions
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        outcomes = await asyncio.gather(*map(self._one, scripts))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        each, left_over = divmod(TALLY.executions - executions, runs)
        if left_over:
            raise WrongWorkError(f"{each * runs + left_over} tool executions for {runs} runs")
        # A system may send less than it stores; the size of the file checks what it stores.
        usages = {check(*pair, each, all_shown=False) for pair in zip(scripts, outcomes, strict=True)}
        return Cost(wall, cpu, "LOST" if "LOST" in usages else "exact")

    async def _one(self, script: Script) -> Outcome:
        SCRIPT.set(script)
        return await self._system.run()

    def stored(self) -> int:
        """Return the bytes on the disk after a checkpoint of the whole log, so without the log."""
        with closing(sqlite3.connect(self.path)) as connection:
            busy, log, written_back = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        if busy or log != written_back:
            raise WrongWorkError("the log could not be checkpointed: a reader or writer is still open")
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files if not path.name.endswith(("-wal", "-shm")))

    async def close(self) -> None:
        await self._system.close()


async def durable(build: Build, *, steps: int, at_most: int, seconds: float, warm: float) -> Figures:
    """Measure runs of *steps* calls with a result of 1 kB: wall, CPU and bytes a step, next to the floors."""
    return await _measured(build, [SIZE] * steps, at_most, seconds, warm)


async def big(build: Build, *, steps: int, megabytes: int, at_most: int, seconds: float, warm: float) -> Figures:
    """Measure a run with one result of *megabytes*: its time and the bytes that it stores."""
    sizes = [SIZE] * steps
    sizes[BIG_STEP - 1] = megabytes * 1_000_000
    found = await _measured(build, sizes, at_most, seconds, warm)
    return found | {"run_ms": found["ms"] * steps, "mb": found["kb"] * steps / 1e3}


async def crowd(build: Build, *, runs: int, steps: int, at_most: int, seconds: float, warm: float) -> Figures:
    """Measure *runs* at once on one file, alternating with one run that has as many steps as all of them."""
    with TemporaryDirectory() as folder:
        writer = _Writer(build, Path(folder, "own"))
        try:
            await writer.open(warm)
            single: list[Cost] = []
            many: list[Cost] = []

            async def once() -> None:
                single.append(await writer.run([SIZE] * steps * 5))
                many.append(await writer.run_many([SIZE] * steps, runs))

            await repeat(once, at_most, seconds)
        finally:
            await writer.close()
    rate_of_one = 5 * steps / statistics.median(cost.wall for cost in single)
    rate = runs * steps / statistics.median(cost.wall for cost in many)
    return {
        "cpu_ms": statistics.median(cost.cpu for cost in many) / (runs * steps) * 1e3,
        "per_second": rate,
        "per_second_alone": rate_of_one,
        "alone_to_many": rate_of_one / rate,
        "usage": "LOST" if "LOST" in {cost.usage for cost in (*single, *many)} else "exact",
    }


async def _measured(build: Build, sizes: list[int], at_most: int, seconds: float, warm: float) -> Figures:
    with TemporaryDirectory() as folder:
        names = {"own": build, "insert": sqlite_insert.build, "step": sqlite_step.build}
        writers = {name: _Writer(each, Path(folder, name)) for name, each in names.items()}
        own = writers["own"]
        try:
            for writer in writers.values():
                await writer.open(warm)
            rows = _bare_rows(own, Path(folder, "rows.db"))
            before = own.stored()
            costs = await _taking_turns(writers, sizes, at_most, seconds, rows)
            stored = own.stored() - before
        finally:
            for writer in writers.values():
                await writer.close()
    runs = len(costs["own"])
    if stored + _ROOM < sum(sizes) * runs:
        raise WrongWorkError(f"{runs} runs stored {stored} bytes; their results alone have {sum(sizes) * runs}")
    return _figures(costs, len(sizes), stored / runs)


def _bare_rows(own: _Writer, path: Path) -> BareRows | None:
    """Return the floor of the system's own rows; None if its tables cannot be copied."""
    if not own.commits:
        return None
    try:
        return BareRows(own.path, path)
    except sqlite3.Error:
        return None


async def _taking_turns(
    writers: dict[str, _Writer], sizes: list[int], at_most: int, seconds: float, rows: BareRows | None
) -> dict[str, list[Cost]]:
    """Run all writers in turn: a slow moment of the machine slows all alike."""
    costs: dict[str, list[Cost]] = {name: [] for name in writers}

    async def once() -> None:
        for name, writer in writers.items():
            costs[name].append(await writer.run(sizes))
        if rows is not None:
            seconds = rows.write(rows.fresh(), writers["own"].commits_of(len(sizes)))
            costs.setdefault("rows", []).append(Cost(seconds, 0.0, "exact"))

    await repeat(once, at_most, seconds)
    return costs


def _figures(costs: dict[str, list[Cost]], steps: int, stored: float) -> Figures:
    wall = {name: statistics.median(cost.wall for cost in found) / steps * 1e3 for name, found in costs.items()}
    usages = {cost.usage for cost in chain(*costs.values())}
    figures: Figures = {
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
    if "rows" in wall:
        figures |= {"rows_ms": wall["rows"], "to_rows": wall["own"] / wall["rows"]}
    return figures


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {"durable": durable, "big": big, "durable_crowd": crowd}
