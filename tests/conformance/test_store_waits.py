"""Waits, in every store: each has one outcome, and the first one wins."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from concertino.errors import UnknownWaitError
from concertino.waits import Resolution, Wait

from .kit import ADAPTERS, FullStore, Life, begun, end, operation, said, taken, wait


async def test_a_wait_comes_back_as_it_was(store: FullStore) -> None:
    life = await begun(store)
    await life.append("calls_changed", waits=[wait(expires=100.0), wait("w2", note="a\ud800", who=())])
    found = await store.wait("w1")
    assert found is not None
    assert found.expires == pytest.approx(found.opened + 100.0)
    assert replace(found, opened=0.0, expires=100.0) == wait(expires=100.0)
    assert [each.key for each in await store.waits()] == ["w1", "w2"]
    assert [each.note for each in await store.waits()] == ["It costs.", "a\ufffd"]
    assert await store.wait("never") is None


async def test_the_first_answer_wins(store: FullStore) -> None:
    life = await begun(store)
    await life.append("suspended", waits=[wait()])
    first = Resolution(verdict="approved", content="go\ud800", arguments='{"amount":2}', by="ann")
    answered = await store.resolve("w1", first)
    assert answered.resolution is not None
    assert answered.resolution.at >= answered.opened
    assert replace(answered.resolution, at=0.0) == replace(first, content="go\ufffd")
    later = await store.resolve("w1", Resolution(verdict="denied", by="bob"))
    assert later == answered == await store.wait("w1")
    assert list(await store.waits()) == []
    assert list(await store.waits(open=False)) == [answered]


async def test_of_answers_at_once_one_wins(store: FullStore) -> None:
    life = await begun(store)
    await life.append("suspended", waits=[wait()])
    found = await asyncio.gather(*(store.resolve("w1", said(str(n))) for n in range(20)))
    assert len({each.resolution for each in found}) == 1


async def test_waits_of_a_tree_of_a_run_the_oldest_first(store: FullStore) -> None:
    life = await begun(store)
    await life.child("r2")
    other = await begun(store, "r9")
    await life.append(waits=[wait("w3")])
    await life.append(run_id="r2", waits=[wait("w1", "r2")])
    await other.append(waits=[wait("w2", "r9")])
    await store.resolve("w3", said())

    async def keys(**asked: Any) -> list[str]:
        return [each.key for each in await store.waits(**asked)]

    assert await keys() == ["w1", "w2"]
    assert await keys(open=False) == ["w3", "w1", "w2"]
    assert await keys(root_id="r1", open=False) == ["w3", "w1"]
    assert await keys(run_id="r1", open=False) == ["w3"]
    assert await keys(run_id="r2") == ["w1"]
    assert await keys(root_id="r2") == await keys(root_id="never") == await keys(limit=0) == []
    assert await keys(limit=1) == ["w1"]
    assert [each.root_id for each in await store.waits()] == ["r1", "r9"]


async def test_an_answer_may_come_before_the_wait(store: FullStore) -> None:
    life = await begun(store)
    await life.append("model_answered", operations=[operation(remote=True)])
    early = await store.resolve("w1", said("42"), run_id="r1")
    assert early.resolution is not None
    assert (early.key, early.run_id, early.kind, early.resolution.content) == ("w1", "r1", "result", "42")
    assert await store.resolve("w1", said("43")) == await store.wait("w1") == early
    await life.append("suspended", waits=[wait(kind="result")])
    found = await store.wait("w1")
    assert found is not None
    assert (found.resolution, found.tool) == (early.resolution, "pay")
    assert list(await store.waits()) == []
    await store.release(life.claim)
    assert list((await store.due()).ready) == ["r1"]


async def test_a_call_of_no_run_that_goes_on_cannot_be_answered(store: FullStore) -> None:
    life = await begun(store)
    await life.end()
    for asked in ({}, {"run_id": "r1"}, {"run_id": "never"}):
        with pytest.raises(UnknownWaitError, match="'w1'"):
            await store.resolve("w1", said(), **asked)
    assert await store.wait("w1") is None


async def test_opening_again_changes_nothing(store: FullStore) -> None:
    life = await begun(store)
    await life.append(waits=[wait()])
    await life.append(waits=[wait(tool="other")])
    answered = await store.resolve("w1", said("x"))
    await life.append(waits=[wait(tool="other")])
    assert await store.wait("w1") == answered
    assert answered.tool == "pay"


async def test_the_end_of_a_run_cancels_its_waits(store: FullStore) -> None:
    life = await begun(store)
    await life.child("r2")
    await life.append(waits=[wait("w1"), wait("w0")])
    await life.append(run_id="r2", waits=[wait("w2", "r2")])
    await store.resolve("w0", said("before"))
    await life.end()
    found = await store.waits(open=False)
    assert [(each.key, each.resolution and each.resolution.verdict) for each in found] == [
        ("w1", "cancelled"),
        ("w0", "result"),
        ("w2", "cancelled"),
    ]
    late = await store.resolve("w1", said("late"))
    assert late.resolution is not None
    assert late.resolution.verdict == "cancelled"


async def test_a_tree_is_ready_when_one_of_its_runs_has_all_it_waits_for(store: FullStore) -> None:
    life = await begun(store)
    await life.child("r2")
    await life.append("calls_changed", "r2", waits=[wait("w1", "r2"), wait("w2", "r2")])
    await life.append("suspended", "r2")

    async def ready() -> list[str]:
        return list((await store.due()).ready)

    await store.resolve("w1", said())
    await store.resolve("w2", said())
    assert await ready() == []  # the root goes on
    await life.append("suspended", waits=[wait("w3")])
    assert await ready() == []  # it is claimed
    await store.release(life.claim)
    assert await ready() == ["r1"]  # its child has all, though the root itself waits
    life = await taken(store)
    assert await ready() == []
    await life.append("resumed", "r2", closed=["w1", "w2"])
    await life.append("ended", "r2", end=end())
    await store.release(life.claim)
    assert await ready() == []
    await store.resolve("w3", said())
    assert await ready() == ["r1"]
    assert list((await store.due(limit=0)).ready) == []


async def test_a_tree_is_not_ready_while_one_wait_of_the_run_is_open(store: FullStore) -> None:
    life = await begun(store)
    await life.append("suspended", waits=[wait("w1"), wait("w2")])
    await store.release(life.claim)
    await store.resolve("w1", said())
    assert list((await store.due()).ready) == []
    await store.send("r1", "stop")
    assert list((await store.due()).ready) == ["r1"]


async def test_overdue_waits_expire(store: FullStore) -> None:
    life = await begun(store, seconds=0.0)
    await life.append("suspended", waits=[wait("w1", expires=0.0), wait("w2", expires=3600.0)])
    due = await store.due()
    assert (due.expired, list(due.ready)) == (1, [])
    found = await store.wait("w1")
    assert found is not None
    assert found.resolution is not None
    assert found.resolution.verdict == "expired"
    assert (await store.due()).expired == 0
    await store.resolve("w2", said())
    assert list((await store.due()).ready) == ["r1"]


async def test_orphans_are_trees_that_nobody_holds(store: FullStore) -> None:
    await begun(store, "held")
    await begun(store, "over", seconds=0.0)
    parked = await begun(store, "parked")
    await store.release(parked.claim)
    ended = await begun(store, "ended", seconds=0.0)
    await ended.end()
    waiting = await begun(store, "calls_changed", seconds=0.0)
    await waiting.append("suspended")
    due = await store.due()
    assert list(due.orphaned) == ["over", "parked"]
    assert list(due.ready) == []


class OneOutcome(RuleBasedStateMachine):
    """Whatever is asked in whatever order: a wait has at most one outcome, and it never changes."""

    adapter = "memory"
    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.do(ADAPTERS[self.adapter](Path(self.folder.name)))
        self.life: Life = self.do(begun(self.store))
        self.known: dict[str, Wait] = {}
        self.outcomes: dict[str, Resolution] = {}
        self.ended = False

    def do(self, asked: Any) -> Any:
        return self.loop.run_until_complete(asked)

    def learn(self, found: Wait) -> None:
        assert found.resolution is not None
        assert self.outcomes.setdefault(found.key, found.resolution) == found.resolution

    @rule(target=keys, number=st.integers(0, 4))
    def name(self, number: int) -> str:
        return f"w{number}"

    @rule(key=keys, expires=st.sampled_from([None, 0.0, 3600.0]))
    def open(self, key: str, expires: float | None) -> None:
        if not self.ended:
            self.do(self.life.append("calls_changed", waits=[wait(key, expires=expires)]))
            self.known.setdefault(key, self.do(self.store.wait(key)))

    @rule(key=keys, content=st.text(max_size=3), early=st.booleans())
    def answer(self, key: str, content: str, early: bool) -> None:
        may = key in self.known or key in self.outcomes
        try:
            found = self.do(self.store.resolve(key, said(content), run_id="r1" if early else None))
        except UnknownWaitError:
            assert not may
        else:
            assert may
            self.learn(found)

    @rule()
    def watch(self) -> None:
        self.do(self.store.due())

    @rule(key=keys)
    def take(self, key: str) -> None:
        if not self.ended:
            self.do(self.life.append("calls_changed", closed=[key]))

    @rule()
    def finish(self) -> None:
        if not self.ended:
            self.do(self.life.end())
            self.ended = True

    @invariant()
    def outcomes_stand(self) -> None:
        opened = {each.key for each in self.do(self.store.waits())}
        for key in {*self.known, *self.outcomes}:
            found = self.do(self.store.wait(key))
            assert (found.resolution is None) == (key in opened)
            if found.resolution is not None:
                self.learn(found)
        assert not (self.ended and opened)

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()
        self.folder.cleanup()


class OneOutcomeInAFile(OneOutcome):
    adapter = "sqlite"


TestOneOutcome = OneOutcome.TestCase
TestOneOutcome.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestOneOutcomeInAFile = OneOutcomeInAFile.TestCase
TestOneOutcomeInAFile.settings = settings(max_examples=5, stateful_step_count=20, deadline=None)
