"""A worker survives kill -9: at each write, and between an approval card and its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from concertino import RunResult

from .conftest import shards
from .kit import until
from .lives import Suspending, begin, end, lines
from .worker_program import run, run_and_wait, worker

DOCUMENT = [
    "findings v1 [pass 1] (from stats (before pass 1)): 0 results",
    "findings v2 [pass 2] (from stats (pass 1)): 1 results",
    "findings v3 [pass 3] (from mark (pass 2)): 2 results",
]
CLERK = Suspending(run, lambda _folder: worker())


def check(folder: Path, result: RunResult, where: object) -> None:
    assert (result.status, result.text) == ("completed", "r1 is marked, of 120 records."), where
    assert lines(folder / "document") == DOCUMENT, where
    assert len(lines(folder / "marked")) == 1, where


async def test_killed_between_the_approval_card_and_the_answer(tmp_path: Path) -> None:
    process = begin(run_and_wait, tmp_path, 0)

    async def is_suspended() -> bool:
        return (tmp_path / "suspended").exists()

    await until(is_suspended)
    process.kill()
    assert await end(process)
    asked = lines(tmp_path / "asked")
    check(tmp_path, await CLERK.finish(tmp_path), "between card and answer")
    assert lines(tmp_path / "asked")[: len(asked)] == asked
    assert len(lines(tmp_path / "asked")) == 5  # the choice, three passes, the synthesis: nothing twice


@pytest.mark.parametrize("part", shards(3))
async def test_killed_at_each_write(part: int, tmp_path: Path) -> None:
    result, moments = await CLERK.whole(tmp_path / "whole")
    check(tmp_path / "whole", result, "unbroken")
    for moment in moments[part::3]:
        folder = tmp_path / f"{moment[0]}{moment[1]}"
        result = await CLERK.survive(folder, moment)
        if not moment[0]:
            check(folder, result, moment)
            continue
        # A `once` call that was running has an unknown outcome: it never runs again.
        assert (result.status, result.text) == ("completed", "r1 is marked, of 120 records."), moment
        assert len(lines(folder / "marked")) <= 1, moment
        assert [line.partition(" (")[0].partition(":")[0] for line in lines(folder / "document")] == [
            f"findings v{number} [pass {number}]" for number in (1, 2, 3)
        ], moment
