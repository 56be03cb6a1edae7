"""Limits hold over all processes of a tree that are killed with kill -9; nothing is charged twice, and nothing lost."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from concertino import OPERATOR, RunResult, SqliteStore

from .kit import steal
from .limits_program import BUDGET, LIMITS, SCOPE, run
from .lives import killed, lines, made, unbroken

KILLS = int(os.environ.get("KILLS", "5"))


async def check(folder: Path, result: RunResult, limit: str, where: str) -> None:
    """Check the end of a tree that reached *limit*."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        runs = await store.runs(OPERATOR, root_id="run_1", limit=1000)
        operations = await store.operations(OPERATOR, root_id="run_1")
        usage = list(await store.usage(OPERATOR, "run_1"))
        accounts = await store.accounts(SCOPE)
        reserved = [each for account in accounts for each in (account.reserved_tokens, account.reserved_money) if each]
        spent = [account.spent_tokens for account in accounts]
    assert result.status in ("completed", "limited"), where
    assert all(each.end is not None for each in runs), where
    assert not operations, where
    ids = [record.id for record in usage]
    assert len(set(ids)) == len(ids), where
    sources = Counter(record.source for record in usage)
    asked = len(lines(folder / "asked"))
    assert sources["measured"] <= asked <= len(usage), f"{where}: {sources}, {asked} asked"
    paid = lines(folder / "paid")
    assert len(set(paid)) == len(paid), where
    limits, calls = LIMITS[limit], sum(result.tool_calls.values())
    if limit == "model_calls":  # the request that a crash interrupted is sent again, in each run
        most = limits.model_calls or 0
        assert sources["measured"] <= most, f"{where}: {sources}"
        assert len(usage) <= most + (len(runs) if sources["unknown"] else 0), f"{where}: {sources}"
    if limit == "all_tool_calls":
        assert calls <= (limits.all_tool_calls or 0), f"{where}: {result.tool_calls}"
    if limit == "steps":
        assert result.steps <= (limits.steps or 0) + 1, where
    assert not reserved, f"{where}: {accounts}"
    if limit == "budget":
        assert spent[0] <= BUDGET, f"{where}: {accounts}"
        known = sum(record.tokens.total for record in usage if record.source == "measured")
        assert spent[0] >= known, f"{where}: {accounts}"
        if not sources["unknown"]:
            assert spent[0] == known, f"{where}: {accounts}"


@pytest.mark.parametrize("limit", LIMITS)
async def test_killed_at_each_operation(limit: str, tmp_path: Path) -> None:
    whole, points = made(tmp_path / "whole"), unbroken()
    await check(whole, await run(whole, points, limit), limit, "not killed")
    count = len(points.passed)
    step = max(1, count // KILLS)
    for number in range(3 + hash_of(limit) % step, count + 1, step):
        folder = tmp_path / str(number)
        if not await killed(run, folder, number, limit=limit):
            continue  # the order of concurrent work differs: this process passed fewer points
        async with await SqliteStore.open(folder / "runs.db") as store:
            await steal(store, "run_1")
            found = await store.run(OPERATOR, "run_1")
            assert found is not None
            if found.end is not None:
                continue
        result = await run(folder, unbroken(), limit, resume=True)
        await check(folder, result, limit, f"killed at point {number} of {count}, {points.passed[number - 1]}")


def hash_of(text: str) -> int:
    """Return a number that is the same in every process."""
    return sum(text.encode())
