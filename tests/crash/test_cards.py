"""The boxes of sub-agents survive kill -9: whoever continues reads the same cards, down the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from concertino import OPERATOR, RunResult, SqliteStore

from .cards_program import run
from .conftest import shards
from .kit import steal
from .lives import killed, made, unbroken

WORKERS = 4
JUDGED = "all about tea | all about coffee | all about milk"
"""The critic's answer: two cards from the lead, and one that the writer has added."""


async def check(folder: Path, result: RunResult, where: str) -> None:
    assert result.status == "completed", f"{where}: {result.error}"
    async with await SqliteStore.open(folder / "runs.db") as store:
        answers = {each.start.agent: each.end and each.end.answer for each in await store.runs(OPERATOR)}
        assert not await store.operations(OPERATOR), where
    assert answers["critic"] == JUDGED, where
    assert answers["writer"] == f"all about tea | all about coffee | all about milk | {JUDGED}", where
    assert JUDGED in result.text, where


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("part", shards(WORKERS))
async def test_killed_at_each_write(part: int, background: bool, tmp_path: Path) -> None:
    whole, points = made(tmp_path / "whole"), unbroken()
    await check(whole, await run(whole, points, background=background), "not killed")
    for number in range(1 + part, len(points.passed) + 1, WORKERS):
        folder = tmp_path / str(number)
        if not await killed(run, folder, number, background=background):
            continue  # the order of concurrent writes differs: this process had fewer
        async with await SqliteStore.open(folder / "runs.db") as store:
            await steal(store, "run_1")
        result = await run(folder, unbroken(), background=background)
        await check(folder, result, f"killed at point {number}, {points.passed[number - 1]}")
