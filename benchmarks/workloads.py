"""Workloads, the same for every system. Each checks the work of the system and returns its figures."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.common import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    SCRIPT,
    TALLY,
    TOOL_SECONDS,
    TOOLS,
    Outcome,
    Script,
    System,
    loop,
)

Figures = dict[str, Any]
Build = Callable[[Callable[..., Any]], System]

WINDOWS = {"at_10": (5, 15), "at_100": (80, 120), "at_1000": (900, 1000)}
"""Steps between which the marginal cost of a step is measured."""
PAUSE = 0.02
"""Seconds per model turn in concurrent runs."""


class WrongWorkError(Exception):
    """The system did not do its work, so its figure is meaningless."""


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongWorkError(f"{what}: {found!r} instead of {wanted!r}")


def check(script: Script, outcome: Outcome, executions: int, *, all_shown: bool = True) -> str:
    """Return whether the system's usage is `exact` or `LOST`. Raises `WrongWorkError` if the work was not done.

    With *all_shown* the last turn must have been shown the whole conversation.
    """
    turns = len(script.turns)
    _expect("model turns", script.position, turns)
    _expect("final text", outcome.text, script.turns[-1].text)
    _expect("tool executions", executions, sum(len(turn.calls) for turn in script.turns))
    if all_shown and script.seen[-1] - script.seen[0] < 2 * (turns - 1):
        raise WrongWorkError(f"the last turn saw {script.seen[-1]} messages, the first {script.seen[0]}")
    return "exact" if outcome.usage() == (PROMPT_TOKENS * turns, COMPLETION_TOKENS * turns) else "LOST"


class _Runs:
    """Times and checks runs, one after the other."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.walls: list[float] = []
        self.cpu = 0.0
        self.usage = "exact"

    async def do(self, script: Script, conversation: Any = None, *, keep: bool = False) -> Any:
        """Run once and return the conversation to keep."""
        executions = TALLY.executions
        SCRIPT.set(script)
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = await self._system.run(conversation, keep=keep)
        self.cpu += time.process_time() - cpu
        self.walls.append(time.perf_counter() - wall)
        if check(script, outcome, TALLY.executions - executions) == "LOST":
            self.usage = "LOST"
        return outcome.conversation


async def _warm(system: System, tool: str) -> None:
    for _ in range(3):
        await _Runs(system).do(Script(loop(2, 1, tool)))
    gc.collect()


async def repeat(once: Callable[[], Awaitable[None]], at_most: int, seconds: float) -> int:
    """Repeat *once* at most *at_most* times and for about *seconds*, and return how often it ran."""
    end = time.perf_counter() + seconds
    done = 0
    while done < at_most and (not done or time.perf_counter() < end):
        await once()
        done += 1
    return done


async def steps(build: Build, *, steps: int, at_most: int, seconds: float, size: int = 0) -> Figures:
    """Measure runs of *steps* tool calls in a row: CPU per step, and per step in parts of a long run.

    Results have *size* characters of English, or one word.
    """
    tool = "text" if size else "ping"
    system = build(TOOLS[tool])
    await _warm(system, tool)
    windows = {name: window for name, window in WINDOWS.items() if window[1] <= steps}
    marks = frozenset(mark for window in windows.values() for mark in window)
    turns = loop(steps, 1, tool, argument=size or 1)
    runs = _Runs(system)
    scripts: list[Script] = []

    async def once() -> None:
        scripts.append(Script(turns, marks=marks))
        await runs.do(scripts[-1])

    done = await repeat(once, at_most, seconds)
    cpu = runs.cpu / done * 1e6
    figures: Figures = {"us": cpu / steps, "run_us": cpu, "runs": done, "usage": runs.usage}
    for name, (first, last) in windows.items():
        costs = [(script.clock[last] - script.clock[first]) / (last - first) for script in scripts]
        figures[name] = statistics.median(costs) * 1e6
    return figures


async def parallel(build: Build, *, tool: str, calls: int, at_most: int) -> Figures:
    """Measure one turn of many slow tools: the wall time of the run relative to its slowest tool."""
    system = build(TOOLS[tool])
    await _warm(system, tool)
    turns = loop(1, calls, tool)
    runs = _Runs(system)
    over_slowest: list[float] = []
    for _ in range(at_most):
        TALLY.slowest = 0.0
        await runs.do(Script(turns))
        over_slowest.append(runs.walls[-1] / TALLY.slowest)
    return {
        "ratio": statistics.median(runs.walls) / TOOL_SECONDS,
        "over_slowest": statistics.median(over_slowest),
        "usage": runs.usage,
    }


async def crowd(build: Build, *, runs: int, turns: int) -> Figures:
    """Measure concurrent runs with a slow model: wall time, and CPU per turn."""
    system, scripts = await _gathering(build, runs, turns)
    executions = TALLY.executions
    wall, cpu = time.perf_counter(), time.process_time()
    outcomes = await _all(system, scripts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    usage = _check_all(scripts, outcomes, TALLY.executions - executions)
    return {"wall_ms": wall * 1e3, "us": cpu / (runs * turns) * 1e6, "usage": usage}


async def crowd_memory(build: Build, *, runs: int, turns: int) -> Figures:
    """Measure concurrent runs with every allocation traced: the peak per run."""
    import tracemalloc

    system, scripts = await _gathering(build, runs, turns)
    executions = TALLY.executions
    tracemalloc.start()
    outcomes = await _all(system, scripts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    usage = _check_all(scripts, outcomes, TALLY.executions - executions)
    return {"kib": peak / runs / 1024, "usage": usage}


async def _gathering(build: Build, runs: int, turns: int) -> tuple[System, list[Script]]:
    system = build(TOOLS["ping"])
    await _warm(system, "ping")
    script = loop(turns - 1, 1, "ping")
    return system, [Script(script, pause=PAUSE) for _ in range(runs)]


async def _all(system: System, scripts: list[Script]) -> list[Outcome]:
    async def one(script: Script) -> Outcome:
        SCRIPT.set(script)
        return await system.run()

    return await asyncio.gather(*map(one, scripts))


def _check_all(scripts: list[Script], outcomes: list[Outcome], executions: int) -> str:
    share, left_over = divmod(executions, len(scripts))
    _expect("tool executions beyond an equal share of each run", left_over, 0)
    found = {check(script, outcome, share) for script, outcome in zip(scripts, outcomes, strict=True)}
    return "LOST" if "LOST" in found else "exact"


async def deltas(build: Build, *, deltas: int, at_most: int, seconds: float) -> Figures:
    """Measure a burst of pieces of text, each of which is an event for the consumer: CPU per piece."""
    system = build(TOOLS["ping"])
    await _warm(system, "ping")
    turns = loop(0, 0, "", deltas=deltas)
    wanted = list(turns[0].deltas)

    async def once() -> None:
        SCRIPT.set(Script(turns))
        pieces = [piece async for piece in system.stream()]
        _expect("pieces forwarded", len(pieces), len(wanted))
        _expect("pieces as written", pieces == wanted, True)

    await once()
    begun = time.process_time()
    done = await repeat(once, at_most, seconds)
    return {"us": (time.process_time() - begun) / (done * deltas) * 1e6, "runs": done}


async def idle(build: Build, *, at_most: int, seconds: float) -> Figures:
    """Measure the memory of a conversation of one run with one call that can be continued. Texts are shared."""
    import tracemalloc

    system = build(TOOLS["ping"])
    await _warm(system, "ping")
    turns = loop(1, 1, "ping")
    kept: list[Any] = []

    async def once() -> None:
        kept.append(await _Runs(system).do(Script(turns), keep=True))

    tracemalloc.start()
    done = await repeat(once, at_most, seconds)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    again = Script(loop(1, 1, "ping", run="2"))
    await _Runs(system).do(again, kept[0], keep=True)
    if again.seen[0] < 5:
        raise WrongWorkError(f"the continued conversation showed the model {again.seen[0]} messages, not 5")
    return {"kib": held / done / 1024, "conversations": done}


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {
    function.__name__: function for function in (steps, parallel, crowd, crowd_memory, deltas, idle)
}
