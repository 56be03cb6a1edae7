"""SIGSTOP: a process that stands still loses its run, and does nothing more for it when it goes on."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections import Counter
from typing import Any

import pytest

from concertino import OPERATOR, Resources, SqliteStore
from concertino.errors import StorageError
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel

from .cast import Agent
from .conftest import shards, side_by_side
from .kit import chat, until
from .reference import Evidence, audit
from .test_kill_points import BY_TIMING, occurrences
from .world import Case, World, stop_self

SHARDS = 8
LEASE = 0.5


def stopped_once(world: World, reference: Evidence, name: str, nth: int) -> list[str]:
    """Stop a life at a point; another takes over when its lease is over, and ends the run; then the first goes on."""
    case = world.case("stopped")
    first = case.life(lease=LEASE, **stop_self(name, nth))
    if not first.until_stopped():
        return [] if name in BY_TIMING else [f"{name} ({nth}) was not passed"]
    if is_locked(case):  # a thread of it stands in the middle of a write: that is the next test's
        first.send(signal.SIGCONT)
        first.end()
        return audit(case, reference, faults=0)
    case.finish(lease=LEASE)
    known = len(case.effects())
    first.send(signal.SIGCONT)
    done = first.end()
    problems = audit(case, reference, faults=1, alive=True)
    if done is None or done["ended"][0]["status"] != "completed":
        return [*problems, f"stopped at {name} ({nth}): the first process says {done}"]
    begun = Counter(done["points"][: first.point])
    late = Counter(effect["tool"] for effect in case.effects()[known:])
    for tool, times in late.items():
        in_hand = begun[f"tool:{tool}:before"] - begun[f"tool:{tool}:after"]
        if times > in_hand:  # what a tool has in hand, the engine cannot take back
            problems.append(f"the first process went on with {tool}, which it had not begun")
    return [f"stopped at {name} ({nth}): {problem}" for problem in problems]


def is_locked(case: Case) -> bool:
    """Whether somebody holds the file's write lock."""
    connection = sqlite3.connect(case.database, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


@pytest.mark.parametrize("shard", shards(SHARDS))
def test_stopped_at_every_point(world: World, undisturbed: dict[str, Any], shard: int) -> None:
    points = occurrences(undisturbed["points"])[shard::SHARDS]
    cases = [lambda at=at: stopped_once(world, undisturbed["evidence"], *at) for at in points]
    found = side_by_side(cases, 12)
    assert not found, "\n".join(found)


async def test_stopped_with_the_write_lock(world: World) -> None:
    """Another process waits for a bounded time, fails with a clear error, and nothing is broken."""
    case = world.case("locked")
    async with await SqliteStore.open(case.database, busy_timeout=0.2) as store:
        holder = await asyncio.to_thread(case.life, "lock")
        assert await asyncio.to_thread(holder.until_stopped) == "locked"
        agent, model = Agent("boss", ()), ScriptedModel("done")
        runtime = Runtime([agent], Resources(store=store, models=lambda _: model))
        with pytest.raises(StorageError, match="lock"):
            await runtime.start(chat(model), agent, run_id="run_locked")
        holder.send(signal.SIGCONT)
        assert await asyncio.to_thread(holder.end) == {}
        again = await runtime.start(chat(model), agent, run_id="run_locked")
        assert (await again.result()).text == "done"
    with sqlite3.connect(case.database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_the_lock_is_taken_in_the_middle_of_a_run(world: World) -> None:
    """The run fails closed: no tool runs without its record; it is taken up where it was when the lock is free."""
    case = world.case("locked")
    async with await SqliteStore.open(case.database, busy_timeout=0.2) as store:
        agent = Agent("boss", ())
        holders: list[Any] = []

        async def lock() -> None:
            holders.append(await asyncio.to_thread(case.life, "lock"))
            assert await asyncio.to_thread(holders[0].until_stopped) == "locked"

        model = ScriptedModel(Answer(text="lost", midway=lock), "done")
        runtime = Runtime([agent], Resources(store=store, models=lambda _: model), lease=0.5)
        run = await runtime.start(chat(model), agent, run_id="run_locked")
        result = await run.result()
        assert result.status == "failed"
        assert "lock" in (result.error or "")
        holders[0].send(signal.SIGCONT)
        assert await asyncio.to_thread(holders[0].end) == {}
        stored = await store.run(OPERATOR, "run_locked")
        assert stored is not None
        assert stored.end is None, "a run whose store failed can be taken up"

        async def taken_up() -> bool:  # when the claim, which could not be given back, is over
            await runtime.look()
            return (await store.run(OPERATOR, "run_locked")).end is not None  # type: ignore[union-attr]

        await until(taken_up)
        assert (await runtime.result(OPERATOR, "run_locked")).text == "done"
        assert [record.source for record in await store.usage(OPERATOR, "run_locked")] == ["unknown", "measured"]
