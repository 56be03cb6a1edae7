"""The asyncio tasks that code under test has started."""

from __future__ import annotations

import asyncio
from typing import Any


def background() -> set[asyncio.Task[Any]]:
    """Return all unfinished tasks except the current one and the test runner's."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return {task for task in tasks if not getattr(task.get_coro(), "__qualname__", "").startswith("TestRunner.")}


async def settle() -> None:
    """Wait until no background task is left."""
    while tasks := background():
        await asyncio.wait(tasks)


async def advance() -> None:
    """Let the other tasks advance, as a tool does that waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)
