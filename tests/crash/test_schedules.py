"""A due schedule survives kill -9 at each write: nothing is lost, and each message starts once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from concertino import OPERATOR, SqliteStore

from .conftest import shards
from .lives import killed, made, unbroken
from .schedule_program import create, run, runtime_of

PARTS = 4


@pytest.mark.parametrize("part", shards(PARTS))
async def test_killed_at_each_write(part: int, tmp_path: Path) -> None:
    points = unbroken()
    await create(made(tmp_path / "whole"))
    await run(tmp_path / "whole", points)
    assert points.passed.count("move_schedule:after") == 1
    for number in range(1, len(points.passed) + 1)[part::PARTS]:
        folder = made(tmp_path / str(number))
        await create(folder)
        where = points.passed[number - 1]
        if not await killed(run, folder, number):
            assert where.startswith("claim_"), where  # after the end of a turn, there may be a look for the next one
        async with await SqliteStore.open(folder / "runs.db") as store, runtime_of(store, sweep=0.02) as runtime:
            await runtime.look()
            while not all(each.end for each in await store.runs(OPERATOR)):  # noqa: ASYNC110 - the watchdog ends them
                await asyncio.sleep(0.01)
            await runtime.look()
            started = [each.start.task for each in await store.runs(OPERATOR)]
            assert sorted(started) == ["daily", "once"], where
            (left,) = await store.schedules(OPERATOR)
            assert left.input == {"message": "daily"}, where
            assert (left.due_at or 0) > (await store.due_schedules(OPERATOR, 0))[0], where
