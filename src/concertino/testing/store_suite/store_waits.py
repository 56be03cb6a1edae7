"""Waits, in every store: each has one outcome, and the first one wins."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from concertino import OPERATOR
from concertino.errors import UnknownWaitError
from concertino.waits import Resolution

from .kit import FullStore, claim_tree, end, operation, result_of, start_tree, wait


async def test_a_wait_comes_back_as_it_was(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("calls_changed", waits=[wait(expires=100.0), wait("w2", note="a\ud800", who=())])
    found = await store.wait(OPERATOR, "w1")
    assert found is not None
    assert found.expires == pytest.approx(found.opened + 100.0)
    assert replace(found, opened=0.0, expires=100.0) == wait(expires=100.0)
    assert [each.key for each in await store.waits(OPERATOR)] == ["w1", "w2"]
    assert [each.note for each in await store.waits(OPERATOR)] == ["It costs.", "a\ufffd"]
    assert await store.wait(OPERATOR, "never") is None


async def test_the_first_answer_wins(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait()])
    first = Resolution(verdict="approved", content="go\ud800", arguments='{"amount":2}', by="ann")
    answered = await store.resolve(OPERATOR, "w1", first)
    assert answered.resolution is not None
    assert answered.resolution.at >= answered.opened
    assert replace(answered.resolution, at=0.0) == replace(first, content="go\ufffd")
    later = await store.resolve(OPERATOR, "w1", Resolution(verdict="denied", by="bob"))
    assert later == answered == await store.wait(OPERATOR, "w1")
    assert list(await store.waits(OPERATOR)) == []
    assert list(await store.waits(OPERATOR, open=False)) == [answered]


async def test_one_of_concurrent_answers_wins(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait()])
    found = await asyncio.gather(*(store.resolve(OPERATOR, "w1", result_of(str(n))) for n in range(20)))
    assert len({each.resolution for each in found}) == 1


async def test_waits_are_listed_oldest_first(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    other = await start_tree(store, "r9")
    await tree.append(waits=[wait("w3")])
    await tree.append(run_id="r2", waits=[wait("w1", "r2")])
    await other.append(waits=[wait("w2", "r9")])
    await store.resolve(OPERATOR, "w3", result_of())

    async def keys(**asked: Any) -> list[str]:
        return [each.key for each in await store.waits(OPERATOR, **asked)]

    assert await keys() == ["w1", "w2"]
    assert await keys(open=False) == ["w3", "w1", "w2"]
    assert await keys(root_id="r1", open=False) == ["w3", "w1"]
    assert await keys(run_id="r1", open=False) == ["w3"]
    assert await keys(run_id="r2") == ["w1"]
    assert await keys(root_id="r2") == await keys(root_id="never") == await keys(limit=0) == []
    assert await keys(limit=1) == ["w1"]
    assert [each.root_id for each in await store.waits(OPERATOR)] == ["r1", "r9"]


async def test_an_answer_may_come_before_the_wait(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("model_answered", operations=[operation(remote=True)])
    early = await store.resolve(OPERATOR, "w1", result_of("42"), run_id="r1")
    assert early.resolution is not None
    assert (early.key, early.run_id, early.kind, early.resolution.content) == ("w1", "r1", "result", "42")
    assert await store.resolve(OPERATOR, "w1", result_of("43")) == await store.wait(OPERATOR, "w1") == early
    await tree.append("suspended", waits=[wait(kind="result")])
    found = await store.wait(OPERATOR, "w1")
    assert found is not None
    assert (found.resolution, found.tool) == (early.resolution, "pay")
    assert list(await store.waits(OPERATOR)) == []
    await store.release(tree.claim)
    assert list((await store.due(OPERATOR)).ready) == ["r1"]


async def test_a_call_of_an_ended_or_unknown_run_cannot_be_answered(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.end()
    for asked in ({}, {"run_id": "r1"}, {"run_id": "never"}):
        with pytest.raises(UnknownWaitError, match="'w1'"):
            await store.resolve(OPERATOR, "w1", result_of(), **asked)
    assert await store.wait(OPERATOR, "w1") is None


async def test_opening_again_changes_nothing(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(waits=[wait()])
    await tree.append(waits=[wait(tool="other")])
    answered = await store.resolve(OPERATOR, "w1", result_of("x"))
    await tree.append(waits=[wait(tool="other")])
    assert await store.wait(OPERATOR, "w1") == answered
    assert answered.tool == "pay"


async def test_the_end_of_a_run_cancels_its_waits(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await tree.append(waits=[wait("w1"), wait("w0")])
    await tree.append(run_id="r2", waits=[wait("w2", "r2")])
    await store.resolve(OPERATOR, "w0", result_of("before"))
    await tree.end()
    found = await store.waits(OPERATOR, open=False)
    assert [(each.key, each.resolution and each.resolution.verdict) for each in found] == [
        ("w0", "result"),
        ("w1", "cancelled"),
        ("w2", "cancelled"),
    ]
    late = await store.resolve(OPERATOR, "w1", result_of("late"))
    assert late.resolution is not None
    assert late.resolution.verdict == "cancelled"


async def test_a_tree_is_ready_when_all_waits_of_one_run_are_answered(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await tree.append("calls_changed", "r2", waits=[wait("w1", "r2"), wait("w2", "r2")])
    await tree.append("suspended", "r2")

    async def ready() -> list[str]:
        return list((await store.due(OPERATOR)).ready)

    await store.resolve(OPERATOR, "w1", result_of())
    await store.resolve(OPERATOR, "w2", result_of())
    assert await ready() == []  # the root goes on
    await tree.append("suspended", waits=[wait("w3")])
    assert await ready() == []  # it is claimed
    await store.release(tree.claim)
    assert await ready() == ["r1"]  # its child has all, though the root itself waits
    tree = await claim_tree(store)
    assert await ready() == []
    await tree.append("resumed", "r2", closed=["w1", "w2"])
    await tree.append("ended", "r2", end=end())
    await store.release(tree.claim)
    assert await ready() == []
    await store.resolve(OPERATOR, "w3", result_of())
    assert await ready() == ["r1"]
    assert list((await store.due(OPERATOR, limit=0)).ready) == []


async def test_a_tree_is_not_ready_while_a_wait_of_the_run_is_open(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait("w1"), wait("w2")])
    await store.release(tree.claim)
    await store.resolve(OPERATOR, "w1", result_of())
    assert list((await store.due(OPERATOR)).ready) == []
    await store.send(OPERATOR, "r1", "stop")
    assert list((await store.due(OPERATOR)).ready) == ["r1"]


async def test_overdue_waits_expire(store: FullStore) -> None:
    tree = await start_tree(store, seconds=0.0)
    await tree.append("suspended", waits=[wait("w1", expires=0.0), wait("w2", expires=3600.0)])
    due = await store.due(OPERATOR)
    assert (due.expired, list(due.ready)) == (1, [])
    found = await store.wait(OPERATOR, "w1")
    assert found is not None
    assert found.resolution is not None
    assert found.resolution.verdict == "expired"
    assert (await store.due(OPERATOR)).expired == 0
    await store.resolve(OPERATOR, "w2", result_of())
    assert list((await store.due(OPERATOR)).ready) == ["r1"]


async def test_orphans_are_running_trees_without_a_lease(store: FullStore) -> None:
    await start_tree(store, "held")
    await start_tree(store, "over", seconds=0.0)
    parked = await start_tree(store, "parked")
    await store.release(parked.claim)
    ended = await start_tree(store, "ended", seconds=0.0)
    await ended.end()
    waiting = await start_tree(store, "calls_changed", seconds=0.0)
    await waiting.append("suspended")
    due = await store.due(OPERATOR)
    assert list(due.orphaned) == ["over", "parked"]
    assert list(due.ready) == []
