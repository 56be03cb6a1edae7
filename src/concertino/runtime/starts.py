"""Work that this process has claimed and is starting."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

log = logging.getLogger("concertino")

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds for which other work waits for a start."""
LONGEST = 30.0
"""Most seconds for which a start waits for a function of the product."""
SHARE = 4
"""In a fleet, the slow starts of a tenant occupy at most the share 1 / `SHARE` of a process."""


class TooSlowError(Exception):
    """A function of the product has not returned in time."""


class Starts:
    """Starts what is claimed, side by side. A slow start keeps other work waiting for `PATIENCE`, then goes on alone.

    A function of the product that gets the resources of a tenant may be slow. If it never returns, the start fails
    before its lease ends. In a fleet, a tenant has few slow starts at once, so that others have free slots.
    """

    def __init__(self, lease: float) -> None:
        self.may_be_slow = True
        """Whether a single start needs a task of its own: a function of the product gets the resources."""
        self.most_slow: float = math.inf
        """The most slow starts of a tenant at once."""
        self.wake: Callable[[], object] = lambda: None
        """Lets the process look again: a slow start that ends may leave a slot, or a conversation with a due turn."""
        self.were_short = False
        """Whether a look may have left work for lack of slots."""
        self.begun = 0
        """The number of works that `begin` was called for."""
        self._longest = min(LONGEST, lease / 2)
        self._slow: Counter[str] = Counter()
        """By tenant: the number of slow starts."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._looks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def freed(self) -> None:
        """Look again after the end of a run, if an earlier look may have left work for lack of slots."""
        if self.were_short:
            self.were_short = False
            self.wake()

    def look(self, look: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin a look for work. Await it in `asyncio.shield`, so that a cancelled caller loses nothing it claims."""
        task = asyncio.create_task(look, name=name)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        task.add_done_callback(_report)
        return task

    async def begin(self, works: Mapping[str, Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        """Do *works*, each under a key, except those in progress. Return the results of all that are not slow.

        Raises the error of one of these. A caller that is cancelled ends no task.
        """
        self.begun += len(works)
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
        done, slow = await asyncio.wait(tasks, timeout=PATIENCE) if tasks else ((), ())
        for late in slow:
            late.add_done_callback(lambda _: self.wake())
        return [task.result() for task in tasks if task in done]

    async def wait_for(self, tenant: str, found: Awaitable[T]) -> T:
        """Return what a function of the product gets for a tenant. Raises `TooSlowError`, and the function's error.

        Only starts are bounded by their leases and the tenant's share: other callers occupy no slot.
        """
        is_start = asyncio.current_task() in self._tasks.values()
        seconds = self._longest if is_start else LONGEST
        task = asyncio.ensure_future(found)
        try:
            if not await _ends(task, min(PATIENCE, seconds)):
                if is_start and self._slow[tenant] >= self.most_slow:
                    raise TooSlowError("is slow for other runs of the tenant too")
                self._slow[tenant] += is_start
                try:
                    if not await _ends(task, seconds - PATIENCE):
                        raise TooSlowError(f"did not return within {seconds:g} s")
                finally:
                    self._slow -= Counter({tenant: int(is_start)})  # which drops a tenant without any
            return task.result()
        finally:
            if not task.done():  # not awaited: it may ignore that it is cancelled
                task.add_done_callback(_report)
                task.cancel()

    async def ended(self, key: str) -> None:
        """Wait until the work of this key is not in progress, unless the caller is this work."""
        if (task := self._tasks.get(key)) is not None and task is not asyncio.current_task():
            await asyncio.wait([task])

    async def close(self) -> None:
        """Wait until nothing is in progress."""
        while waited := [*self._looks, *self._tasks.values()]:
            await asyncio.wait(waited)


async def _ends(task: asyncio.Future[Any], seconds: float) -> bool:
    """Return whether a task ends within *seconds*."""
    return bool((await asyncio.wait([task], timeout=max(0.0, seconds)))[0])


def _report(task: asyncio.Future[Any]) -> None:
    """Log the error of a task that may have lost its caller."""
    if not task.cancelled() and (error := task.exception()) is not None:
        name = task.get_name() if isinstance(task, asyncio.Task) else "a function of the product"
        log.info("%s failed: %s", name, type(error).__name__)
