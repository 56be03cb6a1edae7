"""Costs that must not grow: the jobs, the rows of their table, and the goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Goal, Job, Row, Samples, Suite, at_most, ratio, row, scale, value

SIZES = (100, 1_000, 10_000)
LEVELS = (1, 2, 3, 4)
DELTAS = (2_000, 16_000)


def _turn(messages: int) -> Job:
    parameters = {"messages": messages, "at_most": 30, "seconds": 2.0}
    return Job(_turn_name(messages), "next_turn", parameters, {"seconds": 0.5}, {"messages": 10, "at_most": 1})


def _turn_name(messages: int) -> str:
    return f"next turn at {messages}"


def _tree(levels: int) -> Job:
    parameters = {"levels": levels, "width": 4, "at_most": 100, "seconds": 1.5}
    return Job(_tree_name(levels), "tree", parameters, {"seconds": 0.5}, {"width": 2, "at_most": 1})


def _tree_name(levels: int) -> str:
    return f"tree of {levels} levels"


def _follow(deltas: int) -> Job:
    parameters = {"deltas": deltas, "at_most": 5, "seconds": 1.5}
    return Job(_follow_name(deltas), "follow", parameters, {"seconds": 0.5}, {"deltas": 20, "at_most": 1})


def _follow_name(deltas: int) -> str:
    return f"live feed of {deltas}"


FIRST = Job("first run", "first_run")
feed_growth = ratio(_follow_name(DELTAS[-1]), "us", _follow_name(DELTAS[0]))
depth_growth = ratio(_tree_name(LEVELS[-1]), "us", _tree_name(LEVELS[1]))


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """Return how concertino compares with its goals for what must not grow."""
    ours, slower, largest = results.get("concertino_growth", {}), scale(results), _turn_name(SIZES[-1])
    return [
        at_most("next turn at 10,000 messages, same process, CPU ms", value(ours, largest, "ms"), 5 * slower),
        at_most("next turn at 10,000 messages, new process, CPU ms", value(ours, largest, "elsewhere_ms"), 50 * slower),
        at_most("live feed, a delta of 16,000 / of 2,000", feed_growth(ours), 1.2),
        at_most("a run in a tree of 4 levels / of 2 levels", depth_growth(ours), 1.15),
    ]


SUITE = Suite(
    name="growth",
    title="Costs that must not grow",
    ours=("floor_growth", "concertino_growth"),
    peers=(),
    subject="concertino_growth",
    floors=("floor_growth",),
    jobs=(*map(_turn, SIZES), *map(_tree, LEVELS), *map(_follow, DELTAS), FIRST),
    rows=(
        *(row("next turn at {messages:,} messages, CPU ms", _turn_name(size), "ms") for size in SIZES),
        *(row("the same in a new process, CPU ms", _turn_name(size), "elsewhere_ms") for size in SIZES),
        *(row("tree {width} wide and {levels} deep, CPU µs/run", _tree_name(levels), "us") for levels in LEVELS),
        Row("a run in a tree of 4 levels / of 2 levels", depth_growth, _tree_name(LEVELS[-1])),
        *(row("live feed of {deltas:,} deltas, CPU µs/delta", _follow_name(deltas), "us") for deltas in DELTAS),
        Row("live feed, a delta of 16,000 / of 2,000", feed_growth, _follow_name(DELTAS[-1])),
        row("first run of a process, wall ms", FIRST.name, "ms"),
        row("first run of a process, CPU ms", FIRST.name, "cpu_ms"),
        row("longest block of the event loop in it, ms", FIRST.name, "blocked_ms"),
    ),
    goals=goals,
)
