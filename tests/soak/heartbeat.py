"""A heartbeat: measures how far the machine itself is behind, so that a fleet is not blamed for a lack of processors.

    python -m tests.soak.heartbeat URL LOG

A beat sleeps, computes and asks the database, as a worker does that looks for work. The fastest ones
take `calm` seconds. A beat that takes twice as long was starved for half of its time.
"""

from __future__ import annotations

import asyncio
import bisect
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import accumulate
from pathlib import Path

import psycopg

PAUSE = 0.03
FIRST = 40
"""Beats before the workers begin."""


class Starvation:
    """The share of each moment that processes had to wait for."""

    def __init__(self, beats: list[tuple[float, float]]) -> None:
        """Read the begin and the duration of each beat."""
        self.calm = sorted(lasted for _, lasted in beats)[len(beats) // 20]
        self._begins = [begin for begin, _ in beats]
        starved = [max(0.0, lasted - self.calm) for _, lasted in beats]
        self._sums = [0.0, *accumulate(starved)]
        self._beats = beats

    def between(self, begin: float, end: float) -> float:
        """Return for how many seconds between two times the machine was behind."""
        return max(0.0, self._until(end) - self._until(begin))

    @property
    def share(self) -> float:
        """The share of the whole time."""
        begin, (last, lasted) = self._begins[FIRST], self._beats[-1]
        return self.between(begin, last + lasted) / (last + lasted - begin)

    def _until(self, at: float) -> float:
        number = bisect.bisect_right(self._begins, at) - 1
        if number < 0:
            return 0.0
        begin, lasted = self._beats[number]
        starved = self._sums[number + 1] - self._sums[number]
        return self._sums[number] + starved * min(1.0, (at - begin) / lasted)


@asynccontextmanager
async def heartbeat(url: str, log: Path) -> AsyncIterator[None]:
    """Let a heart beat in a process of its own for a `with` block, which begins when it has beaten in peace."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    beating = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, url, str(log)), env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert beating.stdout is not None
        assert await beating.stdout.readline(), "the heartbeat has failed"
        yield
    finally:
        with suppress(ProcessLookupError):
            beating.kill()
        await beating.wait()


def starvation(log: Path) -> Starvation:
    """Read the log of a heartbeat."""
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return Starvation([(float(begin), float(lasted)) for begin, lasted in lines])


def beat(url: str, log: Path) -> None:
    """Beat until killed."""
    connection: psycopg.Connection | None = None
    with log.open("a", buffering=1) as file:
        number = 0
        while True:
            begin = time.time()
            time.sleep(PAUSE)
            sum(range(50_000))
            try:
                if connection is None or connection.closed:
                    connection = psycopg.connect(url, autocommit=True)
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection = None  # it restarts: this beat measures the processors only
            file.write(f"{begin} {time.time() - begin}\n")
            number += 1
            if number == FIRST:
                print("ready", flush=True)


if __name__ == "__main__":
    beat(sys.argv[1], Path(sys.argv[2]))
