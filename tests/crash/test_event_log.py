"""Two processes on one file: one writes a run's events and is killed, the other reads them and continues the run."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from concertino import AgentConfig, ModelRequest, Resources, Scope, SqliteStore
from concertino.events import RunEnded, RunEvent, RunStarted, TextDelta, TurnCompleted, Voided
from concertino.messages import AssistantMessage, Text
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime import Runtime
from concertino.usage import Tokens

PROGRAM = """
import asyncio, sys
from concertino import Chat, Resources, SqliteStore
from concertino.runtime import Runtime
from tests.crash.test_event_log import Endless, Writer

async def main():
    store = await SqliteStore.open(sys.argv[1])
    runtime = Runtime([Writer()], Resources(store=store))
    run = await runtime.start(Chat(model=Endless("A"), message="go"), "writer", run_id="run_1")
    print("started", flush=True)
    await run.result()

asyncio.run(main())
"""


class Writer(AgentConfig):
    """Writes."""

    name = "writer"


class Endless:
    """A model that writes numbered words, one after another, without an end or up to *words*."""

    provider = "scripted"

    def __init__(self, letter: str, words: int | None = None) -> None:
        self.name = letter
        self.words = words

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Write."""
        text = []
        for number in itertools.count() if self.words is None else range(self.words):
            text.append(f"{self.name}{number} ")
            yield TextChunk(text[-1])
            await asyncio.sleep(0.002)
        yield Reply(AssistantMessage((Text("".join(text)),), "end", self.name), Tokens(1, 1))

    async def close(self) -> None:
        """Release nothing."""


@asynccontextmanager
async def writing(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the program until it is killed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(path), stdout=asyncio.subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"started\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_kill_leaves_no_gap_and_no_number_twice(tmp_path: Path, pieces: int) -> None:
    path = tmp_path / "runs.db"
    seen: list[tuple[int, RunEvent]] = []
    model = Endless("B", 30)
    async with writing(path) as process, await SqliteStore.open(path) as store:
        runtime = Runtime([Writer()], Resources(store=store, models=lambda _: model), sweep=0.05)
        async for number, event in runtime.events(Scope(), "run_1"):
            seen.append((number, event))
            if isinstance(event, TextDelta) and sum(isinstance(each, TextDelta) for _, each in seen) == pieces:
                process.send_signal(signal.SIGKILL)
                await process.wait()
                await runtime.__aenter__()  # its watchdog resumes the run; this reader follows it from here to there
        whole = [numbered async for numbered in runtime.events(Scope(), "run_1")]
        result = await runtime.result(Scope(), "run_1")
        await runtime.close()
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1)), "no gap, and no number twice"
    marks = [event for _, event in seen if isinstance(event, Voided)]
    assert len(marks) == 1
    void = [event for number, event in seen if marks[0].first <= number <= marks[0].last]
    first_life = [e for _, e in seen if isinstance(e, TextDelta) and e.text.startswith("A")]
    assert len(first_life) >= pieces
    assert [e for e in void if isinstance(e, TextDelta)] == first_life, "all pieces of the lost answer are void"
    valid = [e for n, e in seen if isinstance(e, TextDelta) and not marks[0].first <= n <= marks[0].last]
    assert "".join(e.text for e in valid) == result.text
    assert [e.resumed for _, e in seen if isinstance(e, RunStarted)] == [False, True]
    assert [e.message.text for _, e in seen if isinstance(e, TurnCompleted)] == [result.text]
    assert isinstance(seen[-1][1], RunEnded)
    assert dict(seen).keys() >= dict(whole).keys(), "a reader who comes later sees the same numbers"
    assert not [e for _, e in whole if isinstance(e, TextDelta)]


async def test_a_dead_process_leaves_its_number_to_the_next(tmp_path: Path) -> None:
    """A reader that was away for the crash learns what to discard from the number that it saw last."""
    path = tmp_path / "runs.db"
    model = Endless("B", 5)
    async with writing(path) as process, await SqliteStore.open(path) as store:
        runtime = Runtime([Writer()], Resources(store=store, models=lambda _: model))
        last = 0
        async for number, event in runtime.events(Scope(), "run_1"):
            if isinstance(event, TextDelta):
                last = number
                break
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await (await runtime.resume(Scope(), "run_1")).result()
        rest = [numbered async for numbered in runtime.events(Scope(), "run_1", after=last)]
        await runtime.close()
    assert isinstance(rest[0][1], Voided)
    assert rest[0][1].first <= last <= rest[0][1].last < rest[0][0]
