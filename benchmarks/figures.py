"""Steps in memory: the jobs, the rows of their table, and the goals; and the types that all suites share."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Job:
    """A workload with its parameters, for one process per system and repetition."""

    name: str
    workload: str
    parameters: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)
    """Changes of the parameters by `--quick`."""
    tiny: dict[str, Any] = field(default_factory=dict)
    """Changes of the parameters by `--self-check`."""
    once: bool = False
    """One repetition is enough: the figure does not depend on the load, or is already the least of many."""
    timeout: float | None = None
    """Seconds after which a system has no figure; None for the driver's default."""


def _steps(name: str, steps: int, at_most: int, tiny: int, *, size: int = 0) -> Job:
    parameters = {"steps": steps, "at_most": at_most, "seconds": 1.5, "size": size}
    return Job(name, "steps", parameters, quick={"seconds": 0.5}, tiny={"steps": tiny, "at_most": 2})


def _parallel(name: str, tool: str) -> Job:
    parameters = {"tool": tool, "calls": 32, "at_most": 9}
    return Job(name, "parallel", parameters, quick={"at_most": 4}, tiny={"calls": 8, "at_most": 1})


_CROWD = {"runs": 500, "turns": 5}
_FEW = {"runs": 20, "turns": 3}

LOAD = Job("load", "load")
"""Begins every process, so it has a sample from each."""
JOBS = (
    _steps("1 step", 1, 1000, 1),
    _steps("5 steps", 5, 400, 5),
    _steps("50 steps", 50, 40, 50),
    _steps("1 step of 1 kB", 1, 1000, 1, size=1_000),
    _steps("50 steps of 1 kB", 50, 40, 50, size=1_000),
    _steps("20 steps of 10 kB", 20, 100, 4, size=10_000),
    _steps("10 steps", 10, 200, 10),
    _steps("100 steps", 100, 20, 20),
    _steps("1000 steps", 1000, 10, 100),
    _parallel("async tools", "nap"),
    _parallel("blocking tools", "blocking_nap"),
    Job("crowd", "crowd", _CROWD, {"runs": 100}, _FEW),
    Job("crowd memory", "crowd_memory", _CROWD | {"runs": 200}, {"runs": 50}, _FEW, once=True),
    Job(
        "deltas",
        "deltas",
        {"deltas": 400, "at_most": 100, "seconds": 1.5},
        quick={"seconds": 0.5},
        tiny={"deltas": 40, "at_most": 2},
    ),
    Job("idle", "idle", {"at_most": 2000, "seconds": 8}, {"at_most": 100}, {"at_most": 10}, once=True),
)

Samples = Mapping[str, Sequence[dict[str, Any]]]
"""The figures of each repetition of one system, by job."""


def value(samples: Samples, job: str, key: str) -> float | None:
    """Return the median of the repetitions, None where nothing was measured."""
    found = [sample[key] for sample in samples.get(job, ()) if key in sample]
    return statistics.median(found) if found else None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Lower is better in all of them."""

    label: str
    """The figure and its unit, with the job's parameters by name."""
    of: Callable[[Samples], float | None]
    job: str
    """The job that the line depends on."""


def row(label: str, job: str, key: str) -> Row:
    """Return the line for one figure of a job."""
    return Row(label, lambda samples: value(samples, job, key), job)


def ratio(job: str, key: str, base: str, base_key: str | None = None) -> Callable[[Samples], float | None]:
    """Return a function for a figure relative to another one of the same system."""

    def of(samples: Samples) -> float | None:
        above, below = value(samples, job, key), value(samples, base, base_key or key)
        return above / below if above and below else None

    return of


growth = ratio("1000 steps", "us", "10 steps")
late_growth = ratio("1000 steps", "at_1000", "1000 steps", "at_10")


def step_alone(long: str, short: str, more: int) -> Callable[[Samples], float | None]:
    """Return a function for the cost of a step without the start and end of its run: *more* steps cost the rest."""

    def of(samples: Samples) -> float | None:
        whole, one = value(samples, long, "run_us"), value(samples, short, "run_us")
        return None if whole is None or one is None else (whole - one) / more

    return of


STEP = step_alone("50 steps", "1 step", 49)
STEP_OF_1_KB = step_alone("50 steps of 1 kB", "1 step of 1 kB", 49)


def start_and_end(samples: Samples) -> float | None:
    """Return the cost of a run without its step, but with its closing answer."""
    one, step = value(samples, "1 step", "run_us"), STEP(samples)
    return None if one is None or step is None else one - step


ROWS = (
    Row("a step alone, CPU µs", STEP, "50 steps"),
    Row("a step alone, result of 1 kB, CPU µs", STEP_OF_1_KB, "50 steps of 1 kB"),
    Row("start and end of a run, CPU µs", start_and_end, "1 step"),
    row("run of {steps} step, CPU µs/run", "1 step", "run_us"),
    row("run of {steps} steps, CPU µs/run", "5 steps", "run_us"),
    row("run of {steps} steps, CPU µs/run", "50 steps", "run_us"),
    row("run of {steps} steps of 1 kB, CPU µs/step", "50 steps of 1 kB", "us"),
    row("run of {steps} steps of 10 kB, CPU µs/step", "20 steps of 10 kB", "us"),
    row("run of {steps:,} steps, CPU µs/step", "10 steps", "us"),
    row("run of {steps:,} steps, CPU µs/step", "100 steps", "us"),
    row("run of {steps:,} steps, CPU µs/step", "1000 steps", "us"),
    Row("growth, run of 1,000 / run of 10", growth, "1000 steps"),
    row("a step around step 10, CPU µs", "1000 steps", "at_10"),
    row("a step around step 100, CPU µs", "1000 steps", "at_100"),
    row("a step around step 1,000, CPU µs", "1000 steps", "at_1000"),
    Row("growth, step 1,000 / step 10", late_growth, "1000 steps"),
    row("{calls} async tools of 50 ms, wall/50 ms", "async tools", "ratio"),
    row("{calls} blocking tools of 50 ms, wall/50 ms", "blocking tools", "ratio"),
    row("{runs} runs at once, wall ms (ideal 100)", "crowd", "wall_ms"),
    row("{runs} runs at once, CPU µs/turn", "crowd", "us"),
    row("{runs} runs at once, peak KiB/run", "crowd memory", "kib"),
    row("burst of {deltas} deltas, CPU µs/delta", "deltas", "us"),
    row("idle conversation, KiB", "idle", "kib"),
    row("import, CPU ms", "load", "import_ms"),
    row("import + one agent, CPU ms", "load", "ms"),
    row("import + one agent, RSS MiB", "load", "mib"),
    row("import + one agent, modules", "load", "modules"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of concertino and its figure; `met` is None where nothing was measured."""

    text: str
    limit: str
    found: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Suite:
    """Jobs, the systems that do them, and the table of their figures."""

    name: str
    title: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    subject: str
    """The system that has goals."""
    floors: tuple[str, ...]
    """The systems that the subject is compared with, in addition to the best peer."""
    jobs: tuple[Job, ...]
    rows: tuple[Row, ...]
    goals: Callable[[Mapping[str, Samples]], list[Goal]]

    @property
    def systems(self) -> tuple[str, ...]:
        """All systems, in the order of the table."""
        return (*self.ours, *self.peers)


REFERENCE_US = 2.3
"""CPU of a step of this floor on the machine that the goals assume.

The goals name 4 µs for a hand-written turn in another harness, in which agent-framework took 183 µs a turn. With this
harness it takes 204 µs on a machine where the floor takes 2.3 µs, so the reference is not generous.
"""


def scale(results: Mapping[str, Samples]) -> float:
    """Return how much slower this machine is than the one that the goals assume, by the floor of the same run."""
    found = [
        sample["floor_us"] for samples in results.values() for sample in samples.get("load", ()) if "floor_us" in sample
    ]
    return statistics.median(found) / REFERENCE_US if found else 1.0


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """Return how concertino compares with its goals for a step in memory."""
    ours, floor, slower = results.get("concertino", {}), results.get("floor", {}), scale(results)
    found = [
        at_most("a step, CPU µs beyond the floor", _above(STEP, ours, floor), 60 * slower),
        at_most("a step with 1 kB, CPU µs beyond the floor", _above(STEP_OF_1_KB, ours, floor), 80 * slower),
        at_most("start and end of a run, CPU µs", start_and_end(ours), 150 * slower),
        at_most("run of 1,000 steps / run of 10, per step", growth(ours), 1.15),
        at_most("a step around step 1,000 / around step 10", late_growth(ours), 1.15),
        at_most("500 runs at once, CPU µs a turn", value(ours, "crowd", "us"), 90 * slower),
        at_most("500 runs at once, wall ms", value(ours, "crowd", "wall_ms"), 100 + 160 * slower),
        at_most("500 runs at once, KiB a run", value(ours, "crowd memory", "kib"), 20),
    ]
    for job in ("async tools", "blocking tools"):
        bare = value(floor, job, "over_slowest")
        text = f"32 {job}, run / its slowest tool" + (f" (floor: {bare:.3f})" if bare else "")
        found.append(at_most(text, value(ours, job, "over_slowest"), 1.03))
    found.append(at_most("import, CPU ms", value(ours, "load", "import_ms"), 100 * slower))
    found.append(_no_sdk(ours))
    return found


def at_most(text: str, found: float | None, limit: float) -> Goal:
    """Return the goal that *found* is at most *limit*."""
    return Goal(
        text, f"<= {_shown(limit)}", "-" if found is None else _shown(found), None if found is None else found <= limit
    )


def at_least(text: str, found: float | None, limit: float) -> Goal:
    """Return the goal that *found* is at least *limit*."""
    return Goal(
        text, f">= {_shown(limit)}", "-" if found is None else _shown(found), None if found is None else found >= limit
    )


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 99.5 else f"{figure:.3g}"


def _above(figure: Callable[[Samples], float | None], ours: Samples, floor: Samples) -> float | None:
    mine, bare = figure(ours), figure(floor)
    return None if mine is None or bare is None else mine - bare


def _no_sdk(ours: Samples) -> Goal:
    loads = ours.get("load", ())
    loaded = sorted({name for load in loads for name in load["sdks"]})
    found = ", ".join(loaded) or "none" if loads else "-"
    return Goal("SDKs of providers that the import loads", "none", found, not loaded if loads else None)


SUITE = Suite(
    name="step",
    title="Steps in memory",
    ours=("floor", "concertino"),
    peers=("agent_framework", "pydantic_ai", "langgraph", "openai_agents"),
    subject="concertino",
    floors=("floor",),
    jobs=JOBS,
    rows=ROWS,
    goals=goals,
)
