"""A schedule that is due, in a process that kills itself at a point."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from concertino import OPERATOR, AgentConfig, Resources, Runtime, SqliteStore
from concertino.runtime import Cron
from concertino.storage import Store
from concertino.testing import FaultyStore, Points, ScriptedModel

from .lives import ANN


class Desk(AgentConfig[None]):
    name = "desk"


def runtime_of(store: Store, **settings: Any) -> Runtime:
    """Return a runtime that answers."""
    return Runtime([Desk()], Resources(store=store, model=ScriptedModel(*["done"] * 9)), **settings)


async def create(folder: Path) -> None:
    """Create two schedules that are due: one at a time, and one that was missed for days."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        schedules = runtime_of(store).schedules
        await schedules.create(ANN, "desk", "once", datetime(2026, 1, 1, tzinfo=UTC))
        daily = await schedules.create(ANN, "desk", "daily", Cron("0 9 * * *"), conversation_id="c1")
        now, _ = await store.due_schedules(OPERATOR, 0)
        assert await store.move_schedule(ANN, daily.id, now - 200_000, since=daily.due_at)


async def run(folder: Path, points: Points) -> None:
    """Start what is due, and wait for its end."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        runtime = runtime_of(faulty)
        await runtime.look()
        for found in await store.runs(OPERATOR):
            live = runtime.live(ANN, found.start.run_id)
            assert live is not None
            await live.result()
        await runtime.close()
