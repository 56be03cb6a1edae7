"""An agent or a tool on another target, with kill -9 of either process at each point: nothing is lost or repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from concertino import OPERATOR, SqliteStore
from concertino.storage import PostgresStore, StoredRun
from tests.postgres.conftest import server
from tests.postgres.server import Server

from .called_program import ROLES, moments, open_store, process
from .conftest import shards
from .lives import ANN, begin, end, lines, made, unbroken

__all__ = ["server"]

PARTS = 6
BILLS = {"agent": ["desk", "desk", "desk/clerk-1", "desk/clerk-1"], "tool": ["desk", "desk"]}
"""What is called, and the agents whose model was asked."""


async def points_of(folder: Path, called: str) -> list[tuple[str, str, int]]:
    """Run both processes to the end, and return the moments at which each can be killed."""
    passed = await asyncio.gather(*(process(folder, unbroken(), role, called) for role in ROLES))
    both = zip(ROLES, passed, strict=True)
    return [(role, name, number) for role, names in both for name, number in moments(names)]


@pytest.mark.parametrize("part", shards(PARTS))
async def test_killed_at_each_point(part: int, tmp_path: Path) -> None:
    await sweep("agent", part, partial(folder_in, tmp_path))


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
async def test_killed_at_each_point_of_a_tool(part: int, tmp_path: Path) -> None:
    await sweep("tool", part, partial(folder_in, tmp_path))


@pytest.mark.sweep
@pytest.mark.postgres
@pytest.mark.parametrize("called", ["agent", "tool"])
@pytest.mark.parametrize("part", range(PARTS))
async def test_killed_at_each_point_on_postgres(part: int, called: str, server: Server, tmp_path: Path) -> None:
    url, numbers = server.database(), count()

    def make(name: str) -> Path:
        folder = made(tmp_path / name)
        (folder / "database").write_text(f"{url} s{next(numbers)}")
        return folder

    await sweep(called, part, make)


def folder_in(parent: Path, name: str) -> Path:
    return made(parent / name)


async def sweep(called: str, part: int, make: Callable[[str], Path]) -> None:
    """Kill either process at the points of one *part*, one after the other, each in a folder that *make* makes."""
    whole = make("whole")
    found = await points_of(whole, called)
    await check(whole, called, "unbroken")
    assert {role for role, _, _ in found} == set(ROLES)
    for place, (role, name, number) in enumerate(found):
        if place % PARTS != part:
            continue
        folder = make(str(place))
        (other,) = set(ROLES) - {role}
        living = asyncio.create_task(process(folder, unbroken(), other, called))
        killed = begin(process, folder, 0, role=role, called=called, kill=(name, number))
        await end(killed)  # not always killed: where the lives of two processes meet, an order may differ
        await process(folder, unbroken(), role, called)
        await living
        await check(folder, called, f"{role} killed at {name} {number}")


async def check(folder: Path, called: str, where: str) -> None:
    """Check what is left: one run of each side, one payment, and each attempt booked once in the desk's bill."""
    async with await open_store(folder) as store:
        desk, clerk = sorted(await store.runs(OPERATOR), key=lambda run: run.start.agent != "desk")
        assert (desk.end and desk.end.status, desk.end and desk.end.answer) == ("completed", "All is paid."), where
        assert (clerk.end and clerk.end.status, clerk.start.parent_id) == ("completed", desk.start.run_id), where
        paid = lines(folder / "paid")
        assert len(paid) == 1 or (not paid and await is_unknown(store, clerk)), where
        bill = await store.usage(ANN, desk.start.run_id)
        answered = [record.agent_path for record in bill if record.source == "measured"]
        assert sorted(answered) == BILLS[called], where
        assert len({record.id for record in bill}) == len(bill), where
        assert not await store.operations(OPERATOR), where


async def is_unknown(store: SqliteStore | PostgresStore, clerk: StoredRun) -> bool:
    """Return whether the run was told that the outcome of its payment is unknown: a lease alone proves no death."""
    if isinstance(store, SqliteStore):
        return False
    journal = await store.load(OPERATOR, clerk.start.run_id)
    assert journal is not None and clerk.end is not None
    messages = [each.message for entry in journal.entries for each in entry.messages]
    told = [each.content for each in messages if each.role == "tool"]
    return any("OUTCOME_UNKNOWN" in text for text in (*told, str(clerk.end.answer)))
