"""The invariants, over conversations that grow by chance: see `session`."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .session import Session


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_all_invariants_hold(chance: Random) -> None:
    Session(chance).run()


@pytest.mark.parametrize("block", range(10))
def test_all_invariants_hold_of_many(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        Session(Random(seed), judged=seed % 3 == 0).run()
