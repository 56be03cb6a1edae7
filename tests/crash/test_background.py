"""Sub-agents in the background survive kill -9: each result is delivered once, and nothing is booked twice."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from concertino import OPERATOR, RunResult, SqliteStore, UserMessage

from .background_program import run
from .conftest import shards
from .kit import steal
from .lives import killed, made, unbroken

WORKERS = 4
PAIRS = int(os.environ.get("PAIRS", "6"))


async def check(folder: Path, result: RunResult, where: str) -> int:
    """Check the end of a run, and return how many attempts at a model it has booked."""
    assert (result.status, result.text) == ("completed", "2 of 2"), where
    delivered = [m.text for m in result.messages if isinstance(m, UserMessage) and m.tool]
    assert sorted(delivered) == [f"[result of buyer-{number}]\nbought" for number in (1, 2)], where
    below = {"boss/buyer-1": 1, "boss/buyer-2": 1}
    assert result.tool_calls in ({"boss": 2, **below}, {"boss": 3, **below}), where
    keys = (folder / "paid").read_text().splitlines()
    assert len(set(keys)) == 2, where
    async with await SqliteStore.open(folder / "runs.db") as store:
        runs = await store.runs(OPERATOR, root_id="run_1")
        assert [run.end.status for run in runs if run.end] == ["completed"] * 3, where
        for stored in runs:
            assert list(await store.operations(OPERATOR, run_id=stored.start.run_id)) == [], where
        usage = list(await store.usage(OPERATOR, "run_1"))
    assert sorted(r.id for r in usage) == sorted(r.id for r in result.usage), where
    return len(usage)


@pytest.mark.parametrize("part", shards(WORKERS))
async def test_killed_at_each_write(part: int, tmp_path: Path) -> None:
    whole, points = made(tmp_path / "whole"), unbroken()
    least = await check(whole, await run(whole, points), "not killed") - 1  # one result may come before a request
    for number in range(1 + part, len(points.passed) + 1, WORKERS):
        folder = tmp_path / str(number)
        if not await killed(run, folder, number):
            continue  # the order of concurrent writes differs: this process had fewer
        async with await SqliteStore.open(folder / "runs.db") as store:
            await steal(store, "run_1")
        result = await run(folder, unbroken())
        booked = await check(folder, result, f"killed at point {number}, {points.passed[number - 1]}")
        assert least <= booked <= least + 1 + 3, "at most what was in flight is asked again"


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("part", shards(2))
async def test_killed_twice(part: int, busy: bool, tmp_path: Path) -> None:
    """The second process dies while it restores or delivers what the first one left."""
    whole, points = made(tmp_path / "whole"), unbroken()
    await check(whole, await run(whole, points, busy=busy), "not killed")
    kills = Random(part)
    for pair in range(PAIRS):
        folder = tmp_path / str(pair)
        at = [kills.randint(3, len(points.passed)), kills.randint(1, len(points.passed) // 2)]
        for number in at:
            await killed(run, folder, number, busy=busy)
        result = await run(folder, unbroken(), busy=busy)
        await check(folder, result, f"killed at points {at}")
