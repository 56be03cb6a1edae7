"""Workloads over HTTP: a loop with a growing history, and answers in many pieces."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, TALLY, URL, Outcome
from benchmarks.http_server import DONE
from benchmarks.workloads import Build, Figures, WrongWorkError

CLOCK: list[float] = []
"""The process's CPU clock at each execution of the tool."""


async def ping(n: int) -> str:
    """Answer at once."""
    CLOCK.append(time.process_time())
    TALLY.executions += n
    return "pong"


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """Run a provider and give its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.http_server", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()


async def http_loop(build: Build, *, turns: int, at_most: int, seconds: float) -> Figures:
    """Measure the CPU of a turn around the end of a run of *turns*, in µs: the minimum of several runs."""
    system: Any = build(ping)
    best, usage = float("inf"), "exact"
    window = max(turns // 5, min(4, turns - 1))
    async with provider() as address:
        end = time.perf_counter() + seconds
        for attempt in range(at_most + 1):
            URL.set(f"{address}/loop/{turns}")
            CLOCK.clear()
            gc.collect()
            outcome: Outcome = await system.run()
            if len(CLOCK) != turns or outcome.text != DONE:
                raise WrongWorkError(f"{len(CLOCK)} tool calls and the answer {outcome.text!r:.60}")
            if outcome.usage() != (PROMPT_TOKENS * (turns + 1), COMPLETION_TOKENS * (turns + 1)):
                usage = "LOST"
            if attempt:  # the first one warms up
                best = min(best, (CLOCK[-1] - CLOCK[-1 - window]) / window * 1e6)
            if attempt and time.perf_counter() > end:
                break
        await system.close()
    return {"us": best, "usage": usage}


async def http_deltas(build: Build, *, play: str, deltas: int, at_most: int) -> Figures:
    """Measure the CPU per piece of an answer in µs, request included, and the time to the first piece in ms."""
    system: Any = build(ping)
    best, first = float("inf"), float("inf")
    wanted = [f"word{place}," for place in range(deltas)]
    async with provider() as address:
        URL.set(f"{address}/{play}/{deltas}")
        for attempt in range(at_most + 1):
            gc.collect()
            got: list[str] = []
            cpu, wall = time.process_time(), time.perf_counter()
            async for piece in system.stream():
                if not got:
                    begun = time.perf_counter() - wall
                got.append(piece)
            cpu = time.process_time() - cpu
            if got != wanted:
                raise WrongWorkError(f"{len(got)} pieces of {deltas}")
            if attempt:
                best, first = min(best, cpu / deltas * 1e6), min(first, begun * 1e3)
        await system.close()
    return {"us": best, "first_ms": first}


WORKLOADS = {"http_loop": http_loop, "http_deltas": http_deltas}
