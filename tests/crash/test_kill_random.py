"""SIGKILL from outside at 200 random moments, in the first life and in later ones. A failure prints its seed."""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time

import pytest

from .conftest import side_by_side
from .reference import Evidence, audit
from .world import Case, World

SEED = int(os.environ.get("CRASH_SEED", "20261121"))
MOMENTS = int(os.environ.get("CRASH_MOMENTS", "200"))
SHARDS = 4


@pytest.fixture(scope="module")
def duration(world: World) -> float:
    """How long an undisturbed life takes, beside others."""

    def one() -> list[str]:
        begun = time.monotonic()
        world.case("timed").finish()
        return [str(time.monotonic() - begun)]

    return statistics.median(float(taken) for taken in side_by_side([one] * 8))


def killed_at_random(case: Case, reference: Evidence, seed: int, duration: float) -> list[str]:
    """Kill up to three lives, each at a moment of its own."""
    chance = random.Random(seed)
    kills, moments = 0, [chance.uniform(0, duration) for _ in range(chance.choice((1, 1, 2, 3)))]
    for moment in moments:
        life = case.life()
        timer = threading.Timer(moment, life.send, (signal.SIGKILL,))
        timer.start()
        kills += life.end() is None
        timer.cancel()
        timer.join()
    case.finish()
    return [f"seed {seed}, killed {kills} times at {moments}: {each}" for each in audit(case, reference, faults=kills)]


@pytest.mark.sweep
@pytest.mark.parametrize("shard", range(SHARDS))
def test_killed_at_random_moments(world: World, reference: Evidence, duration: float, shard: int) -> None:
    print(f"CRASH_SEED={SEED}, {MOMENTS} moments over {duration:.3f} s")
    seeds = [SEED + number for number in range(shard, MOMENTS, SHARDS)]
    cases = [lambda seed=seed: killed_at_random(world.case("random"), reference, seed, duration) for seed in seeds]
    assert side_by_side(cases) == []
