"""A sub-agent on another target, with kill -9 of either process at each point: nothing is lost or repeated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from concertino import OPERATOR, SqliteStore

from .called_program import ROLES, moments, process
from .conftest import shards
from .lives import ANN, begin, end, lines, made, unbroken

PARTS = 6


async def points_of(folder: Path) -> list[tuple[str, str, int]]:
    """Run both processes to the end, and return the moments at which each can be killed."""
    passed = await asyncio.gather(*(process(made(folder), unbroken(), role) for role in ROLES))
    both = zip(ROLES, passed, strict=True)
    return [(role, name, number) for role, names in both for name, number in moments(names)]


@pytest.mark.parametrize("part", shards(PARTS))
async def test_killed_at_each_point(part: int, tmp_path: Path) -> None:
    found = await points_of(tmp_path / "whole")
    await check(tmp_path / "whole", "unbroken")
    assert {role for role, _, _ in found} == set(ROLES)
    for count, (role, name, number) in enumerate(found):
        if count % PARTS != part:
            continue
        folder = made(tmp_path / str(count))
        (other,) = set(ROLES) - {role}
        living = asyncio.create_task(process(folder, unbroken(), other))
        killed = begin(process, folder, 0, role=role, kill=(name, number))
        await end(killed)  # not always killed: where the lives of two processes meet, an order may differ
        await process(folder, unbroken(), role)
        await living
        await check(folder, f"{role} killed at {name} {number}")


async def check(folder: Path, where: str) -> None:
    """Check what is left: one run of each agent, one payment, and each attempt booked once in the desk's bill."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        desk, clerk = sorted(await store.runs(OPERATOR), key=lambda run: run.start.agent, reverse=True)
        assert (desk.end and desk.end.status, desk.end and desk.end.answer) == ("completed", "All is paid."), where
        assert (clerk.end and clerk.end.status, clerk.start.parent_id) == ("completed", desk.start.run_id), where
        assert len(lines(folder / "paid")) == 1, where
        bill = await store.usage(ANN, desk.start.run_id)
        answered = [record.agent_path for record in bill if record.source == "measured"]
        assert sorted(answered) == ["desk", "desk", "desk/clerk-1", "desk/clerk-1"], where
        assert len({record.id for record in bill}) == len(bill), where
        assert not await store.operations(OPERATOR), where
