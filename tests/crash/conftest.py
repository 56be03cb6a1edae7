"""The processes outside and the undisturbed run, once for all crash tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from . import world as worlds
from .reference import Evidence, audit, gather


@pytest.fixture(scope="session")
def world() -> Iterator[worlds.World]:
    """Effects, provider and program, each in a process of its own."""
    yield from worlds.world()


@pytest.fixture(scope="session")
def undisturbed(world: worlds.World) -> dict[str, Any]:
    """A run that nothing happens to: its evidence, and the points that it passed."""
    case = world.case("undisturbed")
    done = case.finish()
    evidence = gather(case)
    problems = audit(case, evidence, faults=0)
    assert not problems, problems
    return {"evidence": evidence, "points": done["points"], "ended": done["ended"]}


@pytest.fixture(scope="session")
def reference(undisturbed: dict[str, Any]) -> Evidence:
    """What an undisturbed run leaves behind."""
    found: Evidence = undisturbed["evidence"]
    return found


def shards(number: int) -> list[Any]:
    """Return parameters that split a sweep: `make test` runs the first shard, `.ci/run` runs all."""
    return [0, *(pytest.param(shard, marks=pytest.mark.sweep) for shard in range(1, number))]


def side_by_side(cases: Sequence[Callable[[], list[str]]], width: int = 4) -> list[str]:
    """All problems of *cases*, some at a time."""
    with ThreadPoolExecutor(width) as pool:
        return [problem for problems in pool.map(lambda case: case(), cases) for problem in problems]
