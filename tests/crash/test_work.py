"""Questions and calls outside turns survive kill -9: nothing that ended is asked again, and nothing is paid twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from concertino import OPERATOR, SqliteStore

from .conftest import shards
from .kit import steal
from .lives import killed, lines, made, unbroken
from .work_program import run

PAYMENTS = 5
"""Two in `prepare`, one in each of two parallel tools, one in `conclude`."""


async def passed(folder: Path) -> list[str]:
    """Return the points of a run that is not killed."""
    points = unbroken()
    result = await run(folder, points)
    assert result.text == "re first? paid 1"
    assert len(lines(folder / "paid")) == PAYMENTS
    return points.passed


@pytest.mark.parametrize("part", shards(4))
async def test_killed_at_each_write(part: int, tmp_path: Path) -> None:
    whole = made(tmp_path / "whole")
    points = await passed(whole)
    asked = Counter(lines(whole / "asked"))
    assert sum(asked.values()) == 2 + 2 + 4 + 1
    after_start = [
        number for number, name in enumerate(points, 1) if number > 2 and not name.startswith("append:ended")
    ]
    for number in after_start[part::4]:
        folder = tmp_path / str(number)
        assert await killed(run, folder, number)
        before = (lines(folder / "paid"), Counter(lines(folder / "asked")))
        async with await SqliteStore.open(folder / "runs.db") as store:
            await steal(store, "run_1")
        result = await run(folder, unbroken(), resume=True)
        where = f"killed at point {number}, {points[number - 1]}, after {before}"
        assert result.status == "completed", where
        paid = lines(folder / "paid")
        assert len(set(paid)) == len(paid), where
        assert len(paid) >= PAYMENTS - 2, where  # two were in flight, and may have been paid
        again = Counter(lines(folder / "asked")) - asked
        assert sum(again.values()) <= 4, f"{where}: {again}"  # no more than what was in flight
        async with await SqliteStore.open(folder / "runs.db") as store:
            run_row = await store.run(OPERATOR, "run_1")
            assert run_row is not None
            assert list(await store.operations(run_row.start.scope, run_id="run_1")) == [], where
