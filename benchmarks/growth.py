"""The workloads whose cost must not grow: the next turn, trees of agents, followed runs, the first run of a process.

Each compares concertino with the same work in bare asyncio, so an adapter has more methods than in `workloads`.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from benchmarks.common import SCRIPT, TALLY, TOOLS, Outcome, Script, loop
from benchmarks.workloads import Figures, WrongWorkError, check, repeat


class GrowthSystem(Protocol):
    """A system with an agent that has one tool. An adapter module has `build(tool) -> GrowthSystem`."""

    async def run(self, conversation: Any = None, *, keep: bool = False) -> Outcome:
        """Answer `QUESTION` by `SCRIPT`, in a new conversation or in one that an earlier outcome kept."""
        ...

    async def tree(self, levels: int, width: int) -> tuple[int, int]:
        """Run a tree of agents, each of which starts *width* of the level below.

        Return how many agents ran, and the prompt tokens of all.
        """
        ...

    def follow(self) -> AsyncIterator[str]:
        """Run `SCRIPT` in the background, and give each piece of text to a reader who follows the run."""
        ...


Build = Callable[[Callable[..., Any]], GrowthSystem]


async def next_turn(build: Build, *, messages: int, at_most: int, seconds: float) -> Figures:
    """Measure the next turn of a conversation of *messages*, continued in this process and in another one.

    For the other process the conversation is unpickled each time, outside the clock: no message remembers anything.
    """
    system = build(TOOLS["text"])
    steps = max((messages - 2) // 2, 1)
    SCRIPT.set(Script(loop(steps, 1, "text", argument=500)))
    kept = (await system.run(keep=True)).conversation
    stored = pickle.dumps(kept)
    here: list[float] = []
    elsewhere: list[float] = []

    async def once() -> None:
        nonlocal kept
        for conversation, costs in ((kept, here), (pickle.loads(stored), elsewhere)):
            script = Script(loop(0, 0, ""))
            SCRIPT.set(script)
            gc.collect()
            begun = time.process_time()
            outcome = await system.run(conversation, keep=True)
            costs.append(time.process_time() - begun)
            if outcome.text != script.turns[-1].text or not script.seen[0]:
                raise WrongWorkError(f"the answer is {outcome.text!r:.60}")
            if costs is here:
                kept = outcome.conversation

    await once()
    here.clear()
    elsewhere.clear()
    await repeat(once, at_most, seconds)
    return {"ms": statistics.median(here) * 1e3, "elsewhere_ms": statistics.median(elsewhere) * 1e3}


async def tree(build: Build, *, levels: int, width: int, at_most: int, seconds: float) -> Figures:
    """Measure trees of agents, *levels* deep below the root: CPU per run."""
    system = build(TOOLS["ping"])
    runs = sum(width**level for level in range(levels + 1))
    turns = 2 * (runs - width**levels) + width**levels  # a leaf has one turn, all others have two
    usage = "exact"

    async def once() -> None:
        nonlocal usage
        found, prompt = await system.tree(levels, width)
        if found != runs:
            raise WrongWorkError(f"{found} runs instead of {runs}")
        usage = usage if prompt == 100 * turns else "LOST"

    await once()
    gc.collect()
    begun = time.process_time()
    done = await repeat(once, at_most, seconds)
    return {"us": (time.process_time() - begun) / (done * runs) * 1e6, "usage": usage}


async def follow(build: Build, *, deltas: int, at_most: int, seconds: float) -> Figures:
    """Measure a run in the background with one reader who keeps up: CPU per piece of text.

    The model writes each piece in a turn of the event loop of its own, so the reader wakes for each.
    """
    system = build(TOOLS["ping"])
    turns = loop(0, 0, "", deltas=deltas)

    async def once() -> None:
        SCRIPT.set(Script(turns, paced=True))
        pieces = [piece async for piece in system.follow()]
        if "".join(pieces) != turns[0].text or len(pieces) < deltas:
            raise WrongWorkError(f"{len(pieces)} pieces of {deltas}")

    if deltas <= 2_000:
        await once()
    gc.collect()
    begun = time.process_time()
    done = await repeat(once, at_most, seconds)
    return {"us": (time.process_time() - begun) / (done * deltas) * 1e6}


async def first_run(build: Build) -> Figures:
    """Measure the first run of this process, with a model whose prices are known; and the longest block of the loop."""
    system = build(TOOLS["ping"])
    longest, beats, done = 0.0, 0, False

    async def beat() -> None:
        nonlocal longest, beats
        while not done:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            longest, beats = max(longest, time.perf_counter() - begun - 0.001), beats + 1

    pulse = asyncio.create_task(beat())
    await asyncio.sleep(0.005)
    longest = 0.0
    script = Script(loop(1, 1, "ping"))
    SCRIPT.set(script)
    executions, wall, cpu = TALLY.executions, time.perf_counter(), time.process_time()
    outcome = await system.run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = True
    await pulse
    usage = check(script, outcome, TALLY.executions - executions)
    return {"ms": wall * 1e3, "cpu_ms": cpu * 1e3, "blocked_ms": longest * 1e3, "beats": beats, "usage": usage}


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {
    function.__name__: function for function in (next_turn, tree, follow, first_run)
}
