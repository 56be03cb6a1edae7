"""A workflow survives kill -9 at each write: each step is done once, and in order."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from concertino import Resources, RunError, RunResult, Runtime, SqliteStore

from .conftest import shards
from .kit import steal
from .test_worker import ROOT, lines, unbroken
from .worker_program import ANN
from .workflow_program import run, workflow

VISITS = [
    "1 read completed verifier",
    "2 read completed verifier",
    "3 ask completed person",
    "4 ship completed",
    "5 plan completed",
]


async def started(folder: Path, point: int, *more: str) -> asyncio.subprocess.Process:
    program = [sys.executable, "-m", "tests.crash.workflow_program", str(folder), str(point), *more]
    return await asyncio.create_subprocess_exec(*program, cwd=ROOT)


async def answered(folder: Path) -> None:
    """Approve what waits."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        await steal(store, "run_1")
        runtime = Runtime([workflow(folder)], Resources(store=store))
        for wait in await store.waits(ANN, run_id="run_1", open=True, limit=10):
            await runtime.approve(ANN, wait.key)
        await runtime.close()


async def finished(folder: Path) -> RunResult:
    """Resume, approve and resume until the run has ended."""
    for _ in range(3):
        await answered(folder)
        try:
            result = await run(folder, unbroken(), resume=True)
        except RunError as error:
            assert isinstance(error.result, RunResult)
            return error.result
        if result.status != "suspended":
            return result
    raise AssertionError("the run does not end")


def check(folder: Path, result: RunResult, where: str, *, sure: bool) -> None:
    """Check the end. Unless *sure*, a `once` call was running: its outcome is unknown, and it never runs again."""
    shipped = lines(folder / "shipped")
    assert len(shipped) == len(set(shipped)), where
    if not sure and result.status == "failed":  # in the plan: a new one might repeat the effect
        assert "OUTCOME_UNKNOWN" in str(result.error), where
        return
    assert (result.status, result.text) == ("completed", "low true"), (where, result.error)
    assert lines(folder / "visits") == VISITS, where
    if sure:
        assert shipped == ["1", "2"], where


@pytest.mark.parametrize("part", shards(8))
async def test_a_workflow_killed_at_each_write(part: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    before, after = unbroken(), unbroken()
    assert (await run(whole, before)).status == "suspended"
    await answered(whole)
    check(whole, await run(whole, after, resume=True), "unbroken", sure=True)
    moments = [("", number) for number in range(3, len(before.passed) + 1)]
    moments += [
        ("resume", number) for number, name in enumerate(after.passed, 1) if not name.startswith("append:ended")
    ]
    for phase, number in moments[part::8]:
        folder = tmp_path / f"{phase}{number}"
        folder.mkdir()
        if phase:
            await run(folder, unbroken())
            await answered(folder)
        process = await started(folder, number, *([phase] if phase else []))
        assert await process.wait() == -signal.SIGKILL
        sure = not phase or "calls_changed" not in after.passed[number - 1]
        check(folder, await finished(folder), f"killed at {phase} {number}", sure=sure)
