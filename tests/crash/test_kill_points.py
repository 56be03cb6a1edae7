"""SIGKILL at every point of an undisturbed run, each of them once; and a loop in which every life is killed."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import shards, side_by_side
from .reference import Evidence, audit
from .world import Case, World, kill_self

SHARDS = 8
BY_TIMING = {f"{point}:{side}" for point in ("append:calls_changed", "due") for side in ("before", "after")}
"""How often these are passed depends on which of several calls ends last, and on who looks when."""


def killed_once(world: World, reference: Evidence, name: str, nth: int) -> list[str]:
    """Kill a life the *nth* time that it passes *name*; another one goes on."""
    case = world.case("point")
    killed = case.life(**kill_self(name, nth)).end() is None
    case.finish()
    problems = audit(case, reference, faults=int(killed))
    if not killed and name not in BY_TIMING:
        problems.append("it came to its end without passing the point")
    return [f"killed at {name} ({nth}): {problem}" for problem in problems]


def occurrences(points: list[str]) -> list[tuple[str, int]]:
    """Each point by its name, and which of that name it is."""
    return [(name, points[: place + 1].count(name)) for place, name in enumerate(points)]


@pytest.mark.parametrize("shard", shards(SHARDS))
def test_killed_at_every_point(world: World, undisturbed: dict[str, Any], shard: int) -> None:
    points = occurrences(undisturbed["points"])
    assert len(points) > 150
    reference = undisturbed["evidence"]
    cases = [lambda at=at: killed_once(world, reference, *at) for at in points[shard::SHARDS]]
    assert side_by_side(cases) == []


LOOPS = {
    "behind each append": ("append:(model_answered|calls_changed|suspended|ended):after", 1),
    "behind each second append": ("append:(model_answered|calls_changed|suspended|ended):after", 2),
    "when each third answer is there": ("model:end", 3),
}
"""Where each life is killed, and the how-manieth time. A life gets a bit further than the one before: one that does not
is poison, and another test's."""


def killed_always(case: Case, at: str, count: int) -> int:
    """Kill each life at the *count*-th point *at* that it passes, until one does not come that far."""
    for lives in range(1, 200):
        if case.life(**kill_self(at, count)).end() is not None:
            return lives - 1
    raise AssertionError("it never ends")


@pytest.mark.parametrize("loop", LOOPS)
def test_every_life_is_killed(world: World, reference: Evidence, loop: str) -> None:
    case = world.case("loop")
    kills = killed_always(case, *LOOPS[loop])
    print(f"{kills} kills")
    assert kills > 3
    assert audit(case, reference, faults=kills) == []
    calls = len(case.calls())
    assert calls <= len(reference.calls) + 4 * kills, "each life repeats what was in flight, and no more"


def test_killed_between_the_end_and_the_news_of_it(world: World, reference: Evidence) -> None:
    """The root's end is on record, and nobody was told: whoever asks again is told the same, and nothing is run."""
    case = world.case()
    assert case.life(**kill_self("append:ended:after", 5)).end() is None
    calls, effects = len(case.calls()), len(case.effects())
    first, second = case.finish(), case.finish()
    assert first["ended"] == second["ended"]
    assert first["ended"][0]["status"] == "completed"
    assert (len(case.calls()), len(case.effects())) == (calls, effects)
    # The claim of the dead process is still on it: a run that has ended is nobody's to take.
    problems = [problem for problem in audit(case, reference, faults=1) if "still held" not in problem]
    assert problems == []
