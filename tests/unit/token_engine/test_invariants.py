"""The invariants of `session`, over random conversations."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .session import Session


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_invariants_of_random_conversations(chance: Random) -> None:
    Session(chance).run()


@pytest.mark.parametrize("block", range(10))
def test_invariants_of_seeded_conversations(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        Session(Random(seed), judged=seed % 3 == 0).run()


@pytest.mark.parametrize("seed", [9003816, 9004219])
def test_truncating_the_first_message_strips_bound_reasoning(seed: int) -> None:
    Session(Random(seed)).run()
