"""A goal survives kill -9 at each write: no round is lost, and none counts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from concertino import RunResult, SqliteStore

from .conftest import shards
from .goal_program import run
from .kit import steal
from .lives import killed, lines, made, unbroken

PARTS = 3


def check(folder: Path, result: RunResult, where: object) -> None:
    assert (result.status, result.text) == ("completed", "Wall 3 is painted, so I am done."), where
    assert len(set(lines(folder / "painted"))) == 3, where
    assert result.tool_calls == {"painter": 3}, where


@pytest.mark.parametrize("part", shards(PARTS))
async def test_killed_at_each_write(part: int, tmp_path: Path) -> None:
    points = unbroken()
    result, judged = await run(made(tmp_path / "whole"), points)
    check(tmp_path / "whole", result, "unbroken")
    assert [each["round"] for each in judged] == [1, 2, 3]
    moments = [
        number for number, name in enumerate(points.passed, 1) if number > 2 and not name.startswith("append:ended")
    ]
    for number in moments[part::PARTS]:
        folder = tmp_path / str(number)
        assert await killed(run, folder, number), number
        async with await SqliteStore.open(folder / "runs.db") as store:
            await steal(store, "run_1")
        result, judged = await run(folder, unbroken(), resume=True)
        check(folder, result, number)
        assert all(each["reached"] == (each["round"] == 3) for each in judged), number
