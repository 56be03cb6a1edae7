"""Batches of one log: whatever the store answers first, readers get the events in their order, and all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import MemoryStore, Scope
from concertino.errors import StorageError
from concertino.events import StepStarted
from concertino.orchestrator.journal.lease import Tree
from concertino.runtime import event_writer
from concertino.runtime.counts import RuntimeCounts
from concertino.runtime.event_window import EventWindow
from concertino.runtime.event_writer import EventWriter
from concertino.storage import Claim, EventBatch

Answer = asyncio.Future[Sequence[BaseException | None]]


class HeldStore(MemoryStore):
    """Answers when the test does."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Answer] = []
        self._more = asyncio.Event()

    def add_events(self, batches: Sequence[EventBatch]) -> Any:
        self.held.append(asyncio.get_running_loop().create_future())
        self._more.set()
        return self.held[-1]

    async def tried(self, count: int) -> None:
        """Wait for the call with this number."""
        while len(self.held) < count:
            self._more.clear()
            await self._more.wait()

    async def answer(self, number: int, error: BaseException | None = None) -> None:
        self.held[number].set_result([error])
        await asyncio.sleep(0)


class EndlessWindow(EventWindow):
    """Ends when the test says so."""

    def add(self, *_: Any, **__: Any) -> None:
        """Forget it."""


def writer_of(store: HeldStore) -> EventWriter:
    """Return a writer of a tree that has begun."""
    writer = EventWriter(store, "r", RuntimeCounts({}), EndlessWindow(store))
    writer._tree = Tree("r", store, 10.0)
    writer._claim = Claim(root_id="r", scope=Scope(), epoch=1, owner="o", seconds=10.0)
    return writer


def put(writer: EventWriter, *steps: int) -> None:
    """Put an event for each of *steps*."""
    for step in steps:
        writer.put(StepStarted("r", "agent", 0, step, "m:x"))


def seen(writer: EventWriter, after: int = 0) -> list[int]:
    """Return the numbers that a reader gets from memory."""
    return [number for number, _ in writer.newer(after) or ()]


async def test_a_batch_that_is_answered_early_is_shown_after_the_one_before() -> None:
    store = HeldStore()
    writer = writer_of(store)
    put(writer, 1, 2)
    writer.flush()  # such as a window, whose answer waits for other runs
    put(writer, 3)
    writer.flush()
    await store.answer(1)
    assert writer.stored == 0
    await store.answer(0)
    assert (writer.stored, seen(writer), seen(writer, 2)) == (3, [1, 2, 3], [3])


async def test_what_comes_while_the_store_fails_is_stored_once_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "_RETRY", 0.0)
    store = HeldStore()
    writer = writer_of(store)
    put(writer, 1)
    writer.flush()
    put(writer, 2)
    writer.flush()
    await store.answer(0, StorageError("full"))
    await store.answer(1, StorageError("not the next"))
    put(writer, 3)
    writer._taken()  # the end of its window
    await store.tried(3)
    store.held[2].set_result([None, None])  # both are tried again
    await asyncio.sleep(0)
    assert seen(writer) == [1, 2]
    assert len(store.held) == 4
    await store.answer(3)
    assert seen(writer) == [1, 2, 3]


def test_a_window_of_a_closed_loop_is_forgotten() -> None:
    window = EventWindow(MemoryStore())
    for _ in range(3):
        asyncio.run(_one(window))
    assert len(window._due) == 1


async def _one(window: EventWindow) -> None:
    window.add(lambda: None, asyncio.get_running_loop())
