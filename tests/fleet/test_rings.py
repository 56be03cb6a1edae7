"""What a ring costs a worker: in a busy fleet, most find nothing, since another worker was faster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from concertino import MemoryStore, Resources, Runtime
from concertino.runtime import Fleet, watchdog
from concertino.runtime.bus.base import wakeup
from concertino.testing import Answer, ScriptedModel

from .test_fleet import CARLA, NEVER, TARGETS, Bell, Desk, joined


class Counting(MemoryStore):
    """Counts the looks for due runs."""

    looks = 0

    async def claim_due(self, *arguments: Any, **options: Any) -> Any:
        self.looks += 1
        return await super().claim_due(*arguments, **options)


@asynccontextmanager
async def idle(bell: Bell, *answers: Answer | str, coroutines: int = 16) -> AsyncIterator[tuple[Counting, Runtime]]:
    """Open a worker whose first look is over, and a web process. Yield the store and the latter."""
    store, model = Counting(), ScriptedModel(*answers)
    resources = Resources(store=store, models=lambda _: model, model=model)
    taking = Fleet(bell=bell, targets=TARGETS, takes=["desks"], coroutines=coroutines)
    web, worker = (Runtime([Desk()], resources, sweep=NEVER) for _ in range(2))
    async with (
        joined(web, Fleet(bell=bell, targets=TARGETS)),
        joined(worker, taking),
    ):
        await worker.look()
        await settled()
        store.looks = 0
        yield store, web


async def settled() -> None:
    """Let a look end: a store in memory answers at once."""
    for _ in range(100):
        await asyncio.sleep(0)


async def flood(bell: Bell) -> None:
    for _ in range(200):
        bell.ring(wakeup("desks"))
        await asyncio.sleep(0)


async def send(web: Runtime) -> str:
    turn = await (await web.conversation(CARLA, agent="desk")).send("hello")
    return [event async for _, event in turn.events()][-1].result.text  # type: ignore[union-attr]


async def test_rings_that_find_nothing_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_QUIET", NEVER)
    bell = Bell()
    async with idle(bell) as (store, _):
        await flood(bell)
        assert store.looks == 1


async def test_a_ring_after_others_that_found_nothing_is_not_lost() -> None:
    bell = Bell()
    async with idle(bell, "hello") as (_, web):
        await flood(bell)
        assert await send(web) == "hello"


async def test_a_single_ring_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_QUIET", NEVER)
    async with idle(Bell(), "hello", "hello again") as (_, web):
        assert await send(web) == "hello"
        await settled()
        assert await send(web) == "hello again"


async def test_a_worker_that_was_not_full_does_not_look_when_a_run_ends() -> None:
    async with idle(Bell(), "hello") as (store, web):
        assert await send(web) == "hello"
        await settled()
        assert store.looks == 1


async def test_a_worker_that_was_full_looks_as_soon_as_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_QUIET", NEVER)
    bell, begun, goes_on = Bell(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await goes_on.wait()

    async with idle(bell, Answer(text="hello", midway=hold), "hello again", coroutines=1) as (_, web):
        first = asyncio.create_task(send(web))
        await begun.wait()
        second = asyncio.create_task(send(web))
        await flood(bell)
        goes_on.set()
        assert (await first, await second) == ("hello", "hello again")
