"""A result that ends the run survives kill -9: once it is recorded, no process asks the model again."""

from __future__ import annotations

from pathlib import Path

from concertino import OPERATOR, RunResult, SqliteStore

from .ending_program import run
from .kit import steal
from .lives import killed, lines, made, unbroken


async def check(folder: Path, result: RunResult, where: str) -> bool:
    """Check the end of a run, and return whether the result of the first execution ended it."""
    executions = len(lines(folder / "booked"))
    assert result.status == "completed", where
    assert result.text == ("Booked." if executions == 1 else "It did not end."), where
    asked = [record for record in result.usage if record.source != "unknown"]
    assert len(asked) <= executions + 1, where
    async with await SqliteStore.open(folder / "runs.db") as store:
        assert not await store.operations(OPERATOR, run_id="run_1"), where
    return executions == 1


async def test_killed_at_each_write(tmp_path: Path) -> None:
    whole, points = made(tmp_path / "whole"), unbroken()
    assert await check(whole, await run(whole, points), "not killed")
    recorded = points.passed.index("append:calls_changed:after") + 1
    for number, name in enumerate(points.passed, 1):
        folder = tmp_path / str(number)
        if not await killed(run, folder, number):
            continue  # a process releases its claim at the end in the background
        async with await SqliteStore.open(folder / "runs.db") as store:
            if await store.run(OPERATOR, "run_1") is not None:
                await steal(store, "run_1")
        where = f"killed at point {number}, {name}"
        first = await check(folder, await run(folder, unbroken()), where)
        assert first or number < recorded, where
