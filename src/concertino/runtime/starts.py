"""Work that this process has claimed and is starting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

log = logging.getLogger("concertino")

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds for which other work waits for a start."""


class Starts:
    """Starts what is claimed, side by side. A slow start keeps other work waiting for `PATIENCE`, then goes on alone.

    A function of the product that gets the resources of a tenant may be slow.
    """

    def __init__(self) -> None:
        self.may_be_slow = True
        """Whether a single start needs a task of its own: a function of the product gets the resources."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._looks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def look(self, look: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin a look for work. Await it in `asyncio.shield`: what it claims is then started in any case."""
        task = asyncio.create_task(look, name=name)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        task.add_done_callback(_report)
        return task

    async def begin(self, works: Mapping[str, Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        """Do *works*, each under a key, except those in progress. Return the results of all that are not slow.

        Raises the error of one of these. A caller that is cancelled ends no task.
        """
        if len(works) == 1 and not self.may_be_slow:
            return [await work() for work in works.values()]
        tasks: list[asyncio.Task[T]] = []
        for key, work in works.items():
            if key not in self._tasks:  # else it was claimed again meanwhile
                task = asyncio.create_task(work(), name=f"start {key}")
                self._tasks[key] = task
                task.add_done_callback(lambda _, key=key: self._tasks.pop(key))  # type: ignore[misc]
                task.add_done_callback(_report)
                tasks.append(task)
        done = (await asyncio.wait(tasks, timeout=PATIENCE))[0] if tasks else ()
        return [task.result() for task in tasks if task in done]

    async def ended(self, key: str) -> None:
        """Wait until the work of this key is not in progress, unless the caller is this work."""
        if (task := self._tasks.get(key)) is not None and task is not asyncio.current_task():
            await asyncio.wait([task])

    async def close(self) -> None:
        """Wait until nothing is in progress."""
        while waited := [*self._looks, *self._tasks.values()]:
            await asyncio.wait(waited)


def _report(task: asyncio.Task[Any]) -> None:
    """Log the error of a task that may have lost its caller."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("%s failed: %s", task.get_name(), type(error).__name__)
