"""Schedules, in every store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from concertino import OPERATOR, Scope, TenantScope
from concertino.storage import Schedule

from .kit import SCOPE, FullStore

OTHER = Scope("o2", "u1")


def daily(id: str = "s1", scope: Scope = SCOPE, due_at: float | None = 100.0) -> Schedule:
    return Schedule(
        id=id,
        tenant=scope.tenant,
        user=scope.user,
        agent="desk",
        input={"message": "The report, please: \U0001f4c8"},
        conversation_id="c1",
        cron="0 9 * * *",
        zone="Europe/Berlin",
        missed="all",
        most=3,
        due_at=due_at,
    )


async def test_a_schedule_is_read_as_it_was_stored(store: FullStore) -> None:
    assert await store.add_schedule(SCOPE, daily())
    assert not await store.add_schedule(SCOPE, daily(due_at=None))
    assert await store.schedule(SCOPE, "s1") == daily()
    assert list(await store.schedules(TenantScope("o1"))) == [daily()]
    assert await store.schedules(SCOPE, limit=0) == ()


async def test_schedules_are_due_by_the_clock_of_the_store(store: FullStore) -> None:
    now, _ = await store.due_schedules(OPERATOR)
    for id, seconds in (("later", 3600), ("second", -1), ("first", -2)):
        await store.add_schedule(SCOPE, daily(id, due_at=now + seconds))
    await store.add_schedule(SCOPE, daily("paused", due_at=None))
    await store.add_schedule(SCOPE, replace(daily("other"), agent="clerk"))
    _, due = await store.due_schedules(OPERATOR, agents=["desk"])
    assert [each.id for each in due] == ["first", "second"]
    _, due = await store.due_schedules(OPERATOR, limit=1)
    assert [each.id for each in due] == ["other"]


async def test_of_several_moves_from_one_time_one_wins(store: FullStore) -> None:
    await store.add_schedule(SCOPE, daily(due_at=100.0))
    moves = [store.move_schedule(SCOPE, "s1", 200.0 + number, since=100.0) for number in range(5)]
    assert sorted(await asyncio.gather(*moves)) == [False, False, False, False, True]
    moved = await store.schedule(SCOPE, "s1")
    assert 200 <= (moved.due_at or 0) <= 204
    assert await store.move_schedule(SCOPE, "s1", None, since=moved.due_at)
    assert (await store.schedule(SCOPE, "s1")).due_at is None
    assert not await store.move_schedule(SCOPE, "s1", 300.0, since=moved.due_at)
    assert await store.move_schedule(SCOPE, "s1", 300.0, since=None)


async def test_a_schedule_is_reached_within_its_scope_only(store: FullStore) -> None:
    await store.add_schedule(SCOPE, daily())
    assert await store.add_schedule(OTHER, daily(scope=OTHER))
    for stranger in (Scope("o1", "u2"), TenantScope("o3"), Scope()):
        assert await store.schedule(stranger, "s1") is None
        assert await store.schedules(stranger) == ()
        assert not await store.move_schedule(stranger, "s1", 1.0, since=100.0)
        assert not await store.delete_schedule(stranger, "s1")
    assert await store.delete_schedule(OTHER, "s1")
    assert list(await store.schedules(OPERATOR)) == [daily()]


async def test_deleted_and_erased_schedules_are_gone(store: FullStore) -> None:
    for id in ("s1", "s2"):
        await store.add_schedule(SCOPE, daily(id))
    await store.add_schedule(OTHER, daily(scope=OTHER))
    assert await store.delete_schedule(SCOPE, "s1")
    assert not await store.delete_schedule(SCOPE, "s1")
    assert await store.add_schedule(SCOPE, daily("s1"))
    await store.erase(SCOPE)
    assert list(await store.schedules(OPERATOR)) == [daily(scope=OTHER)]
    _, due = await store.due_schedules(OPERATOR)
    assert [each.tenant for each in due] == ["o2"]
