"""A workflow survives kill -9 at each write: each step is done once, and in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from concertino import RunResult

from .conftest import shards
from .lives import Suspending, lines
from .workflow_program import run, workflow

VISITS = [
    "1 read completed verifier",
    "2 read completed verifier",
    "3 ask completed person",
    "4 ship completed",
    "5 plan completed",
]
FLOW = Suspending(run, workflow)


def check(folder: Path, result: RunResult, where: object, *, sure: bool) -> None:
    """Check the end. Unless *sure*, a `once` call was running: a person states its outcome; it never runs again."""
    shipped = lines(folder / "shipped")
    assert len(shipped) == len(set(shipped)), where
    assert (result.status, result.text) == ("completed", "low true"), (where, result.error)
    assert lines(folder / "visits") == VISITS, where
    if sure:
        assert shipped == ["1", "2"], where


@pytest.mark.parametrize("part", shards(8))
async def test_a_workflow_killed_at_each_write(part: int, tmp_path: Path) -> None:
    result, moments = await FLOW.whole(tmp_path / "whole")
    check(tmp_path / "whole", result, "unbroken", sure=True)
    for moment in moments[part::8]:
        folder = tmp_path / f"{moment[0]}{moment[1]}"
        sure = not moment[0] or "calls_changed" not in moment[2]
        check(folder, await FLOW.survive(folder, moment), moment, sure=sure)
