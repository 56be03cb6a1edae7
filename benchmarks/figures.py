"""What is measured of a step in memory: the jobs, the rows of the table they fill, and the goals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Job:
    """What one process does, for each system and repetition."""

    name: str
    workload: str
    parameters: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)
    """What `--quick` changes of the parameters."""
    tiny: dict[str, Any] = field(default_factory=dict)
    """What `--self-check` changes of them."""
    once: bool = False
    """One repetition is enough: the figure does not depend on the machine's mood, or is the least of many in it."""
    timeout: float | None = None
    """Seconds after which a system has none; None for the driver's own."""


def _steps(name: str, steps: int, at_most: int, tiny: int) -> Job:
    parameters = {"steps": steps, "at_most": at_most, "seconds": 1.5}
    return Job(name, "steps", parameters, quick={"seconds": 0.5}, tiny={"steps": tiny, "at_most": 2})


def _parallel(name: str, tool: str) -> Job:
    parameters = {"tool": tool, "calls": 32, "at_most": 9}
    return Job(name, "parallel", parameters, quick={"at_most": 4}, tiny={"calls": 8, "at_most": 1})


_CROWD = {"runs": 500, "turns": 5}
_FEW = {"runs": 20, "turns": 3}

LOAD = Job("load", "load")
"""Done at the beginning of every process, so it has a sample from each."""
JOBS = (
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
"""By job, what each repetition of one system gave."""


def value(samples: Samples, job: str, key: str) -> float | None:
    """The median of the repetitions; None where nothing was measured."""
    found = [sample[key] for sample in samples.get(job, ()) if key in sample]
    return statistics.median(found) if found else None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Lower is better in all of them."""

    label: str
    """What is measured, with the job's parameters by name."""
    of: Callable[[Samples], float | None]
    job: str
    """The job whose failure is this row's."""


def row(label: str, job: str, key: str) -> Row:
    return Row(label, lambda samples: value(samples, job, key), job)


def growth(samples: Samples) -> float | None:
    """What a step of a run of 1,000 costs, measured by a step of a run of 10."""
    long, short = value(samples, "1000 steps", "us"), value(samples, "10 steps", "us")
    return long / short if long and short else None


def late_growth(samples: Samples) -> float | None:
    """What a step costs around step 1,000, measured by what it costs around step 10 of the same run."""
    late, early = value(samples, "1000 steps", "at_1000"), value(samples, "1000 steps", "at_10")
    return late / early if late and early else None


ROWS = (
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
    row("import, ms", "load", "import_ms"),
    row("import + one agent, ms", "load", "ms"),
    row("import + one agent, RSS MiB", "load", "mib"),
    row("import + one agent, modules", "load", "modules"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What concertino aims at, and what was found; `met` is None where nothing was measured."""

    text: str
    found: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Suite:
    """The jobs, the systems that do them, and the table of their figures."""

    name: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    subject: str
    """The system that has goals."""
    floors: tuple[str, ...]
    """The systems that the subject is measured by, besides the best peer."""
    jobs: tuple[Job, ...]
    rows: tuple[Row, ...]
    goals: Callable[[Mapping[str, Samples]], list[Goal]]

    @property
    def systems(self) -> tuple[str, ...]:
        """All systems, in the order of the table."""
        return (*self.ours, *self.peers)


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """How concertino stands to its goals."""
    ours, floor = results.get("concertino", {}), results.get("floor", {})
    found = [_above_floor(job, ours, floor) for job in ("10 steps", "100 steps", "1000 steps")]
    found += [
        at_most("run of 1,000 steps / run of 10, per step", growth(ours), 1.15),
        at_most("a step around step 1,000 / around step 10", late_growth(ours), 1.15),
    ]
    for job in ("async tools", "blocking tools"):
        bare = value(floor, job, "over_slowest")
        text = f"32 {job}, run / its slowest tool" + (f" (floor: {bare:.3f})" if bare else "")
        found.append(at_most(text, value(ours, job, "over_slowest"), 1.03))
    found.append(at_most("import, ms", value(ours, "load", "import_ms"), 100))
    found.append(_no_sdk(ours))
    return found


def at_most(text: str, found: float | None, limit: float) -> Goal:
    """That what was *found* is at most *limit*."""
    if found is None:
        return Goal(f"{text}: at most {limit:g}", "not measured", None)
    shown = f"{found:.3f}" if limit < 10 else f"{found:.0f}"
    return Goal(f"{text}: at most {limit:g}", shown, found <= limit)


def _above_floor(job: str, ours: Samples, floor: Samples) -> Goal:
    mine, bare = value(ours, job, "us"), value(floor, job, "us")
    above = None if mine is None or bare is None else mine - bare
    return at_most(f"run of {job}, CPU µs/step above the floor", above, 60)


def _no_sdk(ours: Samples) -> Goal:
    text = "import loads no SDK of a provider"
    loads = ours.get("load", ())
    if not loads:
        return Goal(text, "not measured", None)
    loaded = sorted({name for load in loads for name in load["sdks"]})
    return Goal(text, ", ".join(loaded) or "none", not loaded)


SUITE = Suite(
    name="step",
    ours=("floor", "concertino"),
    peers=("agent_framework", "pydantic_ai", "langgraph", "openai_agents"),
    subject="concertino",
    floors=("floor",),
    jobs=JOBS,
    rows=ROWS,
    goals=goals,
)
