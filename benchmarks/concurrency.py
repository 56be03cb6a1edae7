"""The cost of one child task and of one blocking call, with asyncio, anyio and our threads.

python -m benchmarks.concurrency
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from concertino.tools.threads import run_in_thread

ROUNDS, CALLS = 7, 5_000


async def _nothing() -> None:
    pass


async def asyncio_task() -> None:
    """Start one child task and wait for it."""
    await asyncio.create_task(_nothing())


async def asyncio_task_group() -> None:
    """Start one child in a task group of asyncio."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_nothing())


async def anyio_task_group() -> None:
    """Start one child in a task group of anyio."""
    async with anyio.create_task_group() as group:
        group.start_soon(_nothing)


async def anyio_thread() -> None:
    """Call a function in a thread of anyio."""
    await anyio.to_thread.run_sync(int, abandon_on_cancel=True)


async def daemon_thread() -> None:
    """Call a function in a thread of ours."""
    await run_in_thread(int)


async def cost(run: Callable[[], Awaitable[None]]) -> float:
    """Return the microseconds of CPU per call, in the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(CALLS):
            await run()
        best = min(best, time.process_time() - begin)
    return best / CALLS * 1e6


async def main() -> None:
    """Print one line per kind of call."""
    for run in (asyncio_task, asyncio_task_group, anyio_task_group, anyio_thread, daemon_thread):
        print(f"{run.__name__.replace('_', ' '):20} {await cost(run):6.1f} µs of CPU")


if __name__ == "__main__":
    asyncio.run(main())
