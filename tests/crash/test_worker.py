"""A worker survives kill -9: at each write, and between an approval card and its answer."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from concertino import Resources, RunResult, Runtime, SqliteStore
from concertino.testing import Points

from .conftest import shards
from .kit import steal, until
from .worker_program import ANN, run, worker

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = [
    "findings v1 [pass 1] (from stats (before pass 1)): 0 results",
    "findings v2 [pass 2] (from stats (pass 1)): 1 results",
    "findings v3 [pass 3] (from mark (pass 2)): 2 results",
]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def started(folder: Path, point: int, *more: str) -> asyncio.subprocess.Process:
    program = [sys.executable, "-m", "tests.crash.worker_program", str(folder), str(point), *more]
    return await asyncio.create_subprocess_exec(*program, cwd=ROOT)


async def answered(folder: Path) -> None:
    """Approve what waits."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        await steal(store, "run_1")
        runtime = Runtime([worker()], Resources(store=store))
        for wait in await store.waits(ANN, run_id="run_1", open=True, limit=10):
            await runtime.approve(ANN, wait.key)
        await runtime.close()


def unbroken() -> Points:
    return Points(lambda _name, _number: None)


async def finished(folder: Path) -> RunResult:
    """Resume, approve and resume until the run has ended."""
    for _ in range(3):
        await answered(folder)
        result = await run(folder, unbroken(), resume=True)
        if result.status != "suspended":
            return result
    raise AssertionError("the run does not end")


def check(folder: Path, result: RunResult, where: str) -> None:
    assert (result.status, result.text) == ("completed", "r1 is marked, of 120 records."), where
    assert lines(folder / "document") == DOCUMENT, where
    assert len(lines(folder / "marked")) == 1, where


async def test_killed_between_the_approval_card_and_the_answer(tmp_path: Path) -> None:
    process = await started(tmp_path, 0)

    async def is_suspended() -> bool:
        return (tmp_path / "suspended").exists()

    await until(is_suspended)
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    asked = lines(tmp_path / "asked")
    check(tmp_path, await finished(tmp_path), "between card and answer")
    assert lines(tmp_path / "asked")[: len(asked)] == asked
    assert len(lines(tmp_path / "asked")) == 5  # the choice, three passes, the synthesis: nothing twice


@pytest.mark.parametrize("part", shards(3))
async def test_killed_at_each_write(part: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    before, after = unbroken(), unbroken()
    assert (await run(whole, before)).status == "suspended"
    await answered(whole)
    check(whole, await run(whole, after, resume=True), "unbroken")
    moments = [("", number) for number in range(3, len(before.passed) + 1)]
    moments += [
        ("resume", number) for number, name in enumerate(after.passed, 1) if not name.startswith("append:ended")
    ]
    for phase, number in moments[part::3]:
        folder = tmp_path / f"{phase}{number}"
        folder.mkdir()
        if phase:
            await run(folder, unbroken())
            await answered(folder)
        process = await started(folder, number, *([phase] if phase else []))
        assert await process.wait() == -signal.SIGKILL
        result = await finished(folder)
        where = f"killed at {phase} {number}"
        if not phase:
            check(folder, result, where)
            continue
        # A `once` call that was running has an unknown outcome: it never runs again.
        assert (result.status, result.text) == ("completed", "r1 is marked, of 120 records."), where
        assert len(lines(folder / "marked")) <= 1, where
        assert [line.partition(" (")[0].partition(":")[0] for line in lines(folder / "document")] == [
            f"findings v{number} [pass {number}]" for number in (1, 2, 3)
        ], where
