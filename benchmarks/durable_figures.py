"""Durable steps: the jobs, the rows of their table, and the goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Goal, Job, Row, Samples, Suite, at_least, at_most, ratio, row, scale, value

LENGTHS = (20, 200, 2000)
MINUTE = 60.0
"""Seconds that a system may take for a job, which a long run of growing steps exceeds."""


def _name(steps: int) -> str:
    return f"{steps} durable steps"


def _job(steps: int, runs: int, tiny: int) -> Job:
    return Job(
        _name(steps),
        "durable",
        {"steps": steps, "at_most": runs, "seconds": 2.0, "warm": 2.0},
        quick={"seconds": 0.5},
        tiny={"steps": tiny, "at_most": 2, "warm": 0.0},
        timeout=MINUTE,
    )


_BIG = Job(
    "a big result",
    "big",
    {"steps": 10, "megabytes": 10, "at_most": 3, "seconds": 2.0, "warm": 2.0},
    quick={"at_most": 1},
    tiny={"megabytes": 1, "at_most": 1, "warm": 0.0},
    timeout=MINUTE,
)


def _rows(steps: int) -> tuple[Row, ...]:
    return (
        row("run of {steps:,} steps, wall ms/step", _name(steps), "ms"),
        row("run of {steps:,} steps, CPU ms/step", _name(steps), "cpu_ms"),
        row("run of {steps:,} steps, wall / its rows in bare transactions", _name(steps), "to_rows"),
        row("run of {steps:,} steps, wall / bare insert", _name(steps), "to_insert"),
        row("run of {steps:,} steps, wall / floor of a step", _name(steps), "to_step"),
        row("run of {steps:,} steps, kB stored/step", _name(steps), "kb"),
    )


_CROWD = Job(
    "durable crowd",
    "durable_crowd",
    {"runs": 50, "steps": 10, "at_most": 5, "seconds": 4.0, "warm": 2.0},
    quick={"at_most": 2},
    tiny={"runs": 5, "steps": 2, "at_most": 1, "warm": 0.0},
    timeout=MINUTE,
)
growth = ratio(_name(200), "kb", _name(20))


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """Return how concertino compares with its goals for a durable step."""
    ours, slower = results.get("concertino_sqlite", {}), scale(results)
    found = []
    for steps in LENGTHS:
        text = f"run of {steps:,} durable steps"
        found.append(at_most(f"{text}, wall / its rows in bare transactions", value(ours, _name(steps), "to_rows"), 3))
        found.append(at_most(f"{text}, CPU ms a step", value(ours, _name(steps), "cpu_ms"), 0.5 * slower))
    many, alone = value(ours, _CROWD.name, "per_second"), value(ours, _CROWD.name, "per_second_alone")
    found += [
        at_most("50 durable runs on one file, CPU ms a step", value(ours, _CROWD.name, "cpu_ms"), 0.5 * slower),
        at_least("50 durable runs / one run, steps per second", many / alone if many and alone else None, 3),
        at_most("kB stored for a step of 1 kB", value(ours, _name(200), "kb"), 3),
        at_most("kB stored for a step, run of 200 / run of 20", growth(ours), 1.05),
    ]
    return found


SUITE = Suite(
    name="durable",
    title="Durable steps",
    ours=("sqlite_insert", "sqlite_step", "concertino_sqlite"),
    peers=("langgraph_node", "langgraph_agent", "dbos_step", "dbos_agent"),
    subject="concertino_sqlite",
    floors=("sqlite_step",),
    jobs=(_job(20, 20, 5), _job(200, 5, 20), _job(2000, 1, 40), _BIG, _CROWD),
    rows=(
        *(each for steps in LENGTHS for each in _rows(steps)),
        Row("kB stored/step, run of 200 / run of 20", growth, _name(200)),
        row("{runs} runs on one file, CPU ms/step", _CROWD.name, "cpu_ms"),
        row("steps per second, one run / {runs} runs", _CROWD.name, "alone_to_many"),
        row("{steps} steps, one of {megabytes} MB: MB stored", _BIG.name, "mb"),
        row("{steps} steps, one of {megabytes} MB: wall ms/run", _BIG.name, "run_ms"),
    ),
    goals=goals,
)
