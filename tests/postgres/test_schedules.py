"""Two processes on one database: each time of a schedule starts once."""

from __future__ import annotations

import asyncio

from concertino import OPERATOR, AgentConfig, Resources, Runtime, Scope
from concertino.runtime import Cron
from concertino.storage import PostgresStore, Store
from concertino.testing import ScriptedModel

ANN = Scope("acme", "ann")


class Desk(AgentConfig[None]):
    name = "desk"


def runtime_of(store: Store) -> Runtime:
    return Runtime([Desk()], Resources(store=store, model=ScriptedModel(*["done"] * 20)), sweep=0.05)


async def test_two_processes_start_a_time_once(url: str, schema: str) -> None:
    async with (
        await PostgresStore.open(url, schema=schema) as one,
        await PostgresStore.open(url, schema=schema) as two,
        runtime_of(one) as first,
        runtime_of(two) as second,
    ):
        now, _ = await one.due_schedules(OPERATOR, 0)
        for number in range(5):
            made = await first.schedules.create(ANN, "desk", f"Report {number}.", Cron("0 9 * * *"))
            assert await one.move_schedule(ANN, made.id, now - 100_000, since=made.due_at)
        await asyncio.gather(first.look(), second.look(), first.look(), second.look())
        while not all(run.end for run in await one.runs(OPERATOR)):  # noqa: ASYNC110 - either process ends them
            await asyncio.sleep(0.02)
        assert sorted(run.start.task for run in await two.runs(OPERATOR)) == [f"Report {n}." for n in range(5)]
