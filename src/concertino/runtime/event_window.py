"""The time for which events are collected, the same for all runs, so that the store writes them together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import StorageError
from ..records import record
from ..storage.base import Store
from ..storage.types import EventBatch
from .event_pieces import NumberedEvents

log = logging.getLogger("concertino")

SECONDS = 0.025
"""Seconds for which events wait for others."""
MOST_SECONDS = 0.25
"""The same for pieces of answers that readers have begun to see, in a process that is busy with hundreds of them."""
_MOST_SHARE = 0.2
"""Most of the time that may go into storing pieces. Then they wait longer, so that more of them share the work."""
_MANY = 64
"""Streams with a piece in the same window, below which none waits longer, however slow the disk is."""


@record
class WaitingBatch:
    """Events of one run on their way to the store."""

    numbered: NumberedEvents
    stored: EventBatch
    settle: Callable[[WaitingBatch, BaseException | None], None]
    """Called with the error, or None, when the store has done it."""


Take = Callable[[], WaitingBatch | None]
"""Returns the events that are pending at the end of a window."""
_Window = tuple[asyncio.AbstractEventLoop, bool]


class EventWindow:
    """Stores the events of all runs of a process at the same time, with one call.

    A store with `adds_apart` gets one call for each run, so that a tree that is locked delays no other.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due: dict[_Window, list[Take]] = {}
        self._seconds = SECONDS
        """Seconds of the next window of pieces."""

    def add(self, take: Take, loop: asyncio.AbstractEventLoop, *, piece: bool = False) -> None:
        """Store what *take* returns at the end of the current window, in *loop*, which runs.

        A *piece* of an answer that readers have begun to see may wait longer.
        """
        window = (loop, piece)
        if (due := self._due.get(window)) is None:
            for old in tuple(self._due):
                if old[0].is_closed():  # it calls nothing
                    del self._due[old]
            due = self._due[window] = []
            loop.call_later(self._seconds if piece else SECONDS, self._end, window)
        due.append(take)

    def store(self, batches: Sequence[WaitingBatch]) -> asyncio.Future[Sequence[BaseException | None]]:
        """Queue *batches* in the store, and return their errors as a future."""
        stored: asyncio.Future[Sequence[BaseException | None]]
        try:
            stored = asyncio.ensure_future(self._store.add_events([batch.stored for batch in batches]))
        except StorageError as error:  # the store is closed, or cannot encode one
            if len(batches) > 1:
                return [self.store([batch]) for batch in batches][-1]
            stored = asyncio.get_running_loop().create_future()
            stored.set_exception(error)
        stored.add_done_callback(partial(_settle, batches))
        return stored

    def _end(self, window: _Window) -> None:
        loop, piece = window
        began = loop.time()
        batches: list[WaitingBatch] = []
        for take in self._due.pop(window):
            try:
                if (batch := take()) is not None:
                    batches.append(batch)
            except Exception as error:  # noqa: BLE001 - such as a value of the product's whose text cannot be had
                log.error("the events of a run cannot be stored: %s", type(error).__name__)  # noqa: TRY400 - a traceback may show content
        if batches:
            apart = getattr(self._store, "adds_apart", False)
            for together in [[batch] for batch in batches] if apart else [batches]:
                stored = self.store(together)
            if piece and len(batches) < _MANY:
                self._seconds = SECONDS
            elif piece:
                stored.add_done_callback(lambda _: self._pace(loop.time() - began))

    def _pace(self, took: float) -> None:
        """Choose the length of the next window of pieces by the time that the last one *took*."""
        self._seconds = min(max(SECONDS, took / _MOST_SHARE), MOST_SECONDS)


def _settle(batches: Sequence[WaitingBatch], stored: asyncio.Future[Sequence[BaseException | None]]) -> None:
    error = StorageError("the write was cancelled") if stored.cancelled() else stored.exception()
    errors = stored.result() if error is None else [error] * len(batches)
    for batch, own in zip(batches, errors, strict=True):
        batch.settle(batch, own)
