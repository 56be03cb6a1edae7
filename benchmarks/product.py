"""The workloads of a chat product on one SQLite file: conversations, the log of events, media, and parts.

Each compares concertino with the same work in bare asyncio and SQLite.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from benchmarks.common import QUESTION, SCRIPT, TALLY, TOOLS, Outcome, Script, loop
from benchmarks.workloads import Figures, WrongWorkError, check, repeat


class Process(Protocol):
    """A process that has opened the file, with nothing of it in memory."""

    async def say(self, message: str, image: str = "") -> str:
        """Send the next message of the conversation, with an *image* in base64, and return the answer to `SCRIPT`."""
        ...

    async def start(self) -> str:
        """Start a run that answers by `SCRIPT` in the background, and return its id."""
        ...

    def follow(self, run_id: str) -> AsyncIterator[str]:
        """Give each piece of the run's text as soon as it is stored, in whichever process it runs."""
        ...


class ProductSystem(Protocol):
    """A system with an agent that has one tool. An adapter module has `build(tool) -> ProductSystem`."""

    def process(self, path: str) -> AbstractAsyncContextManager[Process]:
        """Open the file at *path* as a process of its own does."""
        ...

    async def run(self, *, guarded: bool) -> Outcome:
        """Answer by `SCRIPT` in memory. A *guarded* run judges input, calls and answers, and hides addresses."""
        ...


Build = Callable[[Callable[..., Any]], ProductSystem]


async def conversation(build: Build, *, turns: int, steps: int, at_most: int, seconds: float) -> Figures:
    """Measure the next turn of a conversation, in the process that holds it and in one that loads it first.

    CPU of the process, and of the event loop's thread alone: there, a system does what it cannot leave to its store.
    """
    system = build(TOOLS["text"])
    here: list[tuple[float, float]] = []
    elsewhere: list[tuple[float, float]] = []
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "product.db"))

        async def turn(process: Process, costs: list[tuple[float, float]]) -> None:
            script = Script(loop(0, 0, ""))
            SCRIPT.set(script)
            gc.collect()
            cpu, thread = time.process_time(), time.thread_time()
            answer = await process.say(QUESTION)
            costs.append((time.process_time() - cpu, time.thread_time() - thread))
            if answer != script.turns[-1].text or not script.seen[0]:
                raise WrongWorkError(f"the answer is {answer!r:.60}")

        async with system.process(path) as holder:
            for number in range(turns):
                SCRIPT.set(Script(loop(steps, 1, "text", argument=500, run=str(number))))
                await holder.say(QUESTION)
            await turn(holder, [])
            await repeat(lambda: turn(holder, here), at_most, seconds)

        async def new_process() -> None:
            async with system.process(path) as other:
                await turn(other, elsewhere)

        await repeat(new_process, max(at_most // 3, 1), seconds)
    figures: Figures = {}
    for name, costs in (("", here), ("elsewhere_", elsewhere)):
        cpu, thread = (statistics.median(each) * 1e3 for each in zip(*costs, strict=True))
        figures |= {f"{name}ms": cpu, f"{name}loop_ms": thread}
    return figures


async def burst(build: Build, *, deltas: int, at_most: int, seconds: float) -> Figures:
    """Measure an answer that is written without a pause, stored in the log, and read by one reader: CPU per piece."""
    system = build(TOOLS["ping"])
    turns = loop(0, 0, "", deltas=deltas)
    with TemporaryDirectory() as folder:
        async with system.process(str(Path(folder, "product.db"))) as process:

            async def once() -> None:
                SCRIPT.set(Script(turns))
                pieces = [piece async for piece in process.follow(await process.start())]
                if "".join(pieces) != turns[0].text:
                    raise WrongWorkError(f"{len(pieces)} pieces of {deltas}")

            await once()
            gc.collect()
            begun = time.process_time()
            done = await repeat(once, at_most, seconds)
            cpu = time.process_time() - begun
    return {"us": cpu / (done * deltas) * 1e6}


async def followed(build: Build, *, deltas: int, gap: float) -> Figures:
    """Measure how late a reader in another process sees the pieces of an answer: the median and the 95th percentile.

    The first piece does not count: the others wait until the reader has it.
    """
    system = build(TOOLS["ping"])
    script = Script(loop(0, 0, "", deltas=deltas), gap=gap)
    script.reader = asyncio.Event()
    SCRIPT.set(script)
    adapter = type(system).__module__.removeprefix("benchmarks.")
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "product.db"))
        async with system.process(path) as process:
            run_id = await process.start()
            command = (sys.executable, "-m", "benchmarks.product", adapter, path, run_id)
            reader = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            assert reader.stdout is not None
            await reader.stdout.readline()
            script.reader.set()
            async for _ in process.follow(run_id):
                pass
            output, _ = await reader.communicate()
    seen: list[float] = json.loads(output)
    if len(seen) != deltas:
        raise WrongWorkError(f"the other process saw {len(seen)} pieces of {deltas}")
    late = sorted(at - sent for at, sent in zip(seen[1:], script.sent[1:], strict=True))
    return {"median_ms": statistics.median(late) * 1e3, "late_ms": late[len(late) * 95 // 100] * 1e3}


async def media(build: Build, *, kilobytes: int, at_most: int, seconds: float) -> Figures:
    """Measure the message of a user with a new image, and its answer: CPU per turn."""
    system = build(TOOLS["ping"])
    with TemporaryDirectory() as folder:
        async with system.process(str(Path(folder, "product.db"))) as process:
            costs: list[float] = []

            async def once() -> None:
                picture = b"\x89PNG\r\n\x1a\n" + os.urandom(kilobytes * 1_000)
                image = base64.b64encode(picture).decode()
                SCRIPT.set(script := Script(loop(0, 0, "")))
                gc.collect()
                begun = time.process_time()
                answer = await process.say(QUESTION, image)
                costs.append(time.process_time() - begun)
                if answer != script.turns[-1].text:
                    raise WrongWorkError(f"the answer is {answer!r:.60}")

            await once()
            costs.clear()
            await repeat(once, at_most, seconds)
    return {"ms": statistics.median(costs) * 1e3}


async def parts(build: Build, *, steps: int, guarded: bool, at_most: int, seconds: float) -> Figures:
    """Measure runs of *steps* tool calls in memory, with or without guardrails: CPU per step."""
    system = build(TOOLS["ping"])
    turns = loop(steps, 1, "ping")
    usage = "exact"

    async def once() -> None:
        nonlocal usage
        script, executions = Script(turns), TALLY.executions
        SCRIPT.set(script)
        outcome = await system.run(guarded=guarded)
        if check(script, outcome, TALLY.executions - executions) == "LOST":
            usage = "LOST"

    await once()
    gc.collect()
    begun = time.process_time()
    done = await repeat(once, at_most, seconds)
    return {"us": (time.process_time() - begun) / (done * steps) * 1e6, "usage": usage}


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {
    function.__name__: function for function in (conversation, burst, followed, media, parts)
}


async def _read(adapter: str, path: str, run_id: str) -> None:
    """Follow a run in this process. Print a line when the first piece has arrived, and at the end when each one has."""
    from importlib import import_module

    system: ProductSystem = import_module(f"benchmarks.{adapter}").build(TOOLS["ping"])
    seen: list[float] = []
    async with system.process(path) as process:
        async for text in process.follow(run_id):
            if not seen:
                print("reading", flush=True)
            seen += [time.monotonic()] * text.count(",")  # a reader that was away gets many as one
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(_read(*sys.argv[1:]))
