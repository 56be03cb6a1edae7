"""The invariants of `session`, over random conversations."""

from __future__ import annotations

import dataclasses
import json
import pickle
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from concertino.context_state import ContextState
from concertino.token_engine import TokenEngine

from ...token_engine.kit import COUNTER
from .session import Session


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_invariants_of_random_conversations(chance: Random) -> None:
    Session(chance).run()


@pytest.mark.parametrize("block", range(10))
def test_invariants_of_seeded_conversations(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        Session(Random(seed), judged=seed % 3 == 0).run()


class Recorded(Session):
    """A session that records its requests. With *kept*, each run continues the engine of the last one."""

    def __init__(self, chance: Random, *, kept: bool) -> None:
        self.kept = kept
        self.requested: list[object] = []
        super().__init__(chance, judged=False)

    def new_engine(self) -> TokenEngine:
        return TokenEngine(COUNTER, self.limit, self.retention, lambda: self.now)

    def request(self) -> None:
        super().request()
        engine = self.engine
        self.requested += [list(engine.edits), list(engine.view()), engine.breakpoints]
        self.requested += [engine.tokens, repr(engine.report)]

    def next_run(self) -> None:
        state = self.engine.state()
        self.requested.append(state)
        last = self.engine if self.kept else None
        record = self.record if self.kept else pickle.loads(pickle.dumps(self.record))
        self.record, self.waiting, self.thought = record, None, {}
        self.engine = self.new_engine()
        assert self.engine.start(record, state if self.kept else copied(state), last=last)


def copied(state: ContextState) -> ContextState:
    return ContextState(**json.loads(json.dumps(dataclasses.asdict(state))))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.integers(0, 2**32))
@example(636)  # small results among the newest ones
def test_a_kept_fold_gives_the_same_requests_as_a_fresh_one(seed: int) -> None:
    kept, fresh = Recorded(Random(seed), kept=True), Recorded(Random(seed), kept=False)
    kept.run()
    fresh.run()
    assert kept.requested == fresh.requested


@pytest.mark.parametrize("seed", [9003816, 9004219])
def test_truncating_the_first_message_strips_bound_reasoning(seed: int) -> None:
    Session(Random(seed)).run()
