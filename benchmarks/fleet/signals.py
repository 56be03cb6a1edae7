"""Rings of bells over NATS: how many one process hears in a second.

`python -m benchmarks.fleet.signals BUS NUMBER` is a process that rings: many topics at once, and again when all were
heard, so that no queue grows.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial

from concertino.runtime import NatsBell
from concertino.runtime.bus.base import events_of

RINGERS, BATCH = 4, 1_000
"""Processes that ring, and topics that each rings at once."""


def _topics(number: int) -> list[str]:
    return [events_of(f"{number}/{each}") for each in range(BATCH)]


def _heard(number: int) -> str:
    return f"evt.agent.{number}.heard"


async def _ring(bus: str, number: int) -> None:
    async with NatsBell(bus) as bell:
        heard, topics = asyncio.Event(), _topics(number)
        bell.listen(_heard(number), heard.set)
        print("ready", flush=True)
        while True:
            await heard.wait()
            heard.clear()
            for topic in topics:
                bell.ring(topic)


async def _listen(bus: str, seconds: float) -> tuple[float, float]:
    counts, total, measured = dict.fromkeys(range(RINGERS), 0), 0, False

    def heard(number: int) -> None:
        nonlocal total
        total += 1
        counts[number] += 1
        if counts[number] == BATCH and not measured:
            counts[number] = 0
            bell.ring(_heard(number))

    async with NatsBell(bus) as bell:
        for number in range(RINGERS):
            for topic in _topics(number):
                bell.listen(topic, partial(heard, number))
        while total < 2 * RINGERS * BATCH:  # all take part, and the first batches are a warm-up
            for number in [each for each, count in counts.items() if not count and not total]:
                bell.ring(_heard(number))
            await asyncio.sleep(0.1)
        since, used, before = time.perf_counter(), time.process_time(), total
        await asyncio.sleep(seconds)
        rings, took, used = total - before, time.perf_counter() - since, time.process_time() - used
        measured = True
        await asyncio.sleep(0.5)  # the last rings are heard, and no request is cut off
        return rings / took, 1e6 * used / rings


def signals(bus: str, seconds: float) -> tuple[float, float]:
    """Return the number of rings that this process hears in a second, and its CPU microseconds for each."""
    command = [sys.executable, "-m", "benchmarks.fleet.signals", bus]
    with ExitStack() as stack:
        for number in range(RINGERS):
            ringer = stack.enter_context(subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True))
            stack.callback(ringer.kill)
            assert ringer.stdout is not None
            assert ringer.stdout.readline() == "ready\n"
        return asyncio.run(_listen(bus, seconds))


if __name__ == "__main__":
    asyncio.run(_ring(sys.argv[1], int(sys.argv[2])))
