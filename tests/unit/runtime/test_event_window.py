"""Windows of events: one call of the store for all runs, and longer ones for pieces in a busy process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from concertino import AgentConfig, Chat, MemoryStore, ModelRequest, Resources, Runtime, Scope
from concertino.messages import AssistantMessage, Text
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime.event_window import MOST_SECONDS, SECONDS, EventWindow, WaitingBatch
from concertino.scope import OPERATOR
from concertino.storage import Claim, EventBatch, EventRow
from concertino.usage import Tokens

ROUNDS = 6
"""Pieces of each stream."""


class CountingStore(MemoryStore):
    """Notes the number of batches of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.last: dict[str, int] = {}
        """The number of the last event of each run."""

    def add_events(self, batches: Sequence[EventBatch]) -> Any:
        self.calls.append(len(batches))
        self.last |= {batch.claim.root_id: batch.last for batch in batches}
        return super().add_events(batches)


class Together:
    """Gives each of many streams its next piece at the same time."""

    provider, name = "tests", "together"

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.more = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for number in range(ROUNDS):
            gate = asyncio.get_running_loop().create_future()
            self.waiting.append(gate)
            self.more.set()
            await gate
            yield TextChunk(f"{number} ")
        yield Reply(AssistantMessage((Text("said"),), "end", self.name), Tokens(prompt=1, completion=3))

    async def close(self) -> None:
        """Close nothing."""

    async def next(self, count: int) -> None:
        while len(self.waiting) < count:
            self.more.clear()
            await self.more.wait()
        await asyncio.sleep(2 * SECONDS)  # whose end comes after that of each window which is open now
        gates, self.waiting = self.waiting, []
        for gate in gates:
            gate.set_result(None)


async def test_the_pieces_of_all_runs_are_stored_with_one_call() -> None:
    model, store = Together(), CountingStore()
    async with Runtime([AgentConfig()], Resources(model=model, store=store)) as runtime:
        runs = [await runtime.start(Chat("go", scope=Scope("t", f"u{number}")), "agent") for number in range(20)]
        for _ in range(ROUNDS):
            before = dict(store.last)
            await model.next(20)
            while any(store.last.get(run.id, 0) == before.get(run.id, 0) for run in runs):  # noqa: ASYNC110 - of the store
                await asyncio.sleep(0.001)
        results = [await run.result() for run in runs]
    assert {result.text for result in results} == {"said"}
    assert max(store.calls) == 20


class Clock:
    """An event loop's time, and what it is to call."""

    def __init__(self) -> None:
        self.now = 0.0
        self.later: list[tuple[float, Callable[[], Any]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[..., Any], *arguments: Any) -> None:
        self.later.append((seconds, partial(call, *arguments)))


class Taken:
    """One run that has a batch for each window."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.error: BaseException | None = None

    def take(self) -> WaitingBatch:
        claim = Claim(root_id="missing", scope=Scope(), epoch=1, owner="o", seconds=1.0)
        rows = [EventRow(run_id="missing", entry=1, items=[[0, "x"]])]
        return WaitingBatch((), EventBatch(claim=claim, first=1, last=1, rows=rows), self.settle)

    def settle(self, batch: WaitingBatch, error: BaseException | None) -> None:
        self.error = error
        self.settled.set()


async def one_window(window: EventWindow, clock: Any, *, runs: int = 100, took: float, piece: bool = True) -> float:
    """Return the length of a window with a batch of each run, which are stored after *took* seconds."""
    taken = Taken()
    for _ in range(runs):
        window.add(taken.take, clock, piece=piece)
    ((seconds, end),) = clock.later
    clock.later.clear()
    end()
    clock.now += took
    await taken.settled.wait()
    return float(seconds)


async def test_pieces_of_many_runs_wait_longer_if_they_take_long_to_store() -> None:
    window, clock = EventWindow(MemoryStore()), Clock()
    assert await one_window(window, clock, took=0.02) == SECONDS
    assert await one_window(window, clock, took=9.0, piece=False) == SECONDS
    assert await one_window(window, clock, took=9.0) == pytest.approx(0.1)
    assert await one_window(window, clock, took=0.001) == MOST_SECONDS
    assert await one_window(window, clock, took=9.0) == SECONDS
    assert await one_window(window, clock, runs=10, took=9.0) == MOST_SECONDS
    assert await one_window(window, clock, took=0.0) == SECONDS


async def test_a_batch_that_cannot_be_encoded_fails_alone() -> None:
    store = MemoryStore()
    window, clock = EventWindow(store), Clock()
    good, bad = Taken(), Taken()

    def unencodable() -> WaitingBatch:
        made = bad.take()
        made.stored.rows[0].items[0][1] = object()
        return made

    window.add(unencodable, clock)  # type: ignore[arg-type]  # a loop's time
    window.add(good.take, clock)  # type: ignore[arg-type]
    clock.later[0][1]()
    await asyncio.gather(good.settled.wait(), bad.settled.wait())
    assert type(good.error).__name__ == "StaleClaimError"  # it reached the store, which has no such run
    assert type(bad.error).__name__ == "StorageError"
    assert await store.event_positions(OPERATOR, ["missing"]) == []


async def test_events_that_cannot_be_taken_do_not_keep_those_of_other_runs(caplog: pytest.LogCaptureFixture) -> None:
    window, clock = EventWindow(MemoryStore()), Clock()
    before, after = Taken(), Taken()

    def failing() -> WaitingBatch:
        raise ValueError("no text")

    for take in (before.take, failing, after.take):
        window.add(take, clock)  # type: ignore[arg-type]  # a loop's time
    clock.later[0][1]()
    await asyncio.gather(before.settled.wait(), after.settled.wait())
    assert "cannot be stored: ValueError" in caplog.text
