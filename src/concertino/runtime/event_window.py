"""The time for which events are collected, the same for all runs, so that the store writes them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import StorageError
from ..records import record
from ..storage.base import Store
from ..storage.types import EventBatch
from .event_pieces import NumberedEvents

SECONDS = 0.025
"""Most seconds for which an event waits."""


@record
class WaitingBatch:
    """Events of one run on their way to the store."""

    numbered: NumberedEvents
    stored: EventBatch
    settle: Callable[[WaitingBatch, BaseException | None], None]
    """Called with the error, or None, when the store has done it."""


class EventWindow:
    """Stores the events of all runs of a process, which are due at the same time, with one call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due: list[Callable[[], WaitingBatch | None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, take: Callable[[], WaitingBatch | None], loop: asyncio.AbstractEventLoop) -> None:
        """Store what *take* returns at the end of the current window, in *loop*, which runs."""
        if not self._due or loop is not self._loop:  # a loop that was closed calls nothing
            self._loop = loop
            loop.call_later(SECONDS, self._end)
        self._due.append(take)

    def store(self, batches: Sequence[WaitingBatch]) -> None:
        """Queue *batches* in the store."""
        try:
            stored = asyncio.ensure_future(self._store.add_events([batch.stored for batch in batches]))
        except StorageError as error:  # the store is closed, or cannot encode one
            if len(batches) > 1:
                for batch in batches:
                    self.store([batch])
                return
            asyncio.get_running_loop().call_soon(_settle, batches, [error])
        else:
            stored.add_done_callback(partial(_done, batches))

    def _end(self) -> None:
        due, self._due = self._due, []
        if batches := [batch for take in due if (batch := take()) is not None]:
            self.store(batches)


def _done(batches: Sequence[WaitingBatch], stored: asyncio.Future[Sequence[BaseException | None]]) -> None:
    error = StorageError("the write was cancelled") if stored.cancelled() else stored.exception()
    _settle(batches, stored.result() if error is None else [error] * len(batches))


def _settle(batches: Sequence[WaitingBatch], errors: Sequence[BaseException | None]) -> None:
    for batch, error in zip(batches, errors, strict=True):
        batch.settle(batch, error)
