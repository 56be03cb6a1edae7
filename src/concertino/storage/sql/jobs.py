"""Calls that wait for a database in another thread, and the way of their outcomes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from .session import Write

Outcome = tuple[Any, BaseException | None]
"""The result of a call, or its error."""


class Job:
    """A call, a write, or several writes of one caller that wait for the connection."""

    __slots__ = ("future", "loop", "outcome", "work", "writes")

    def __init__(self, work: Callable[[], Any] | Write[Any] | Sequence[Write[Any]]) -> None:
        self.work = work
        self.writes: Sequence[Write[Any]] = (work,) if isinstance(work, Write) else () if callable(work) else work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.outcome: Outcome = (None, None)


def set_outcomes(jobs: Iterable[Job], outcomes: Iterable[Outcome]) -> None:
    """Give *jobs* the outcomes of their writes; the result of several is their errors."""
    found = iter(outcomes)
    for job in jobs:
        own = list(islice(found, len(job.writes)))
        job.outcome = own[0] if isinstance(job.work, Write) else ([error for _, error in own], None)


def deliver(jobs: list[Job]) -> None:
    """Set the futures of *jobs*, with one wake-up per event loop."""
    for loop, group in groupby(jobs, key=attrgetter("loop")):
        try:
            loop.call_soon_threadsafe(set_futures, list(group))
        except RuntimeError:
            continue  # the loop is closed, and so are its callers


def set_futures(jobs: list[Job]) -> None:
    """Set the futures of *jobs* from their event loop."""
    for job in jobs:
        result, error = job.outcome
        if job.future.done():
            continue  # the caller was cancelled
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
