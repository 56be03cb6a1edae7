"""Lives of a program: processes that kill themselves at a point. Each is a fork of one process that has imported the
programs, so it begins at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from concertino import AgentConfig, Resources, RunError, RunResult, Runtime, Scope, SqliteStore
from concertino.testing import Points

from .kit import steal

Program = Callable[..., Coroutine[Any, Any, Any]]
"""A function of a module; it takes a folder, `Points` and more."""
Moment = tuple[str, int, str]
"""The phase of a program, "" or "resume", and the number and name of a point in it."""

ANN = Scope("acme", "ann")
_forks = get_context("forkserver")
_programs = ("background", "cards", "ending", "goal", "limits", "work", "worker", "workflow")
_forks.set_forkserver_preload([f"tests.crash.{name}_program" for name in _programs])


def unbroken() -> Points:
    return Points(lambda _name, _number: None)


def kill_at(point: int) -> Points:
    return Points(lambda _, number: os.kill(os.getpid(), signal.SIGKILL) if number == point else None)


def lines(path: Path) -> list[str]:
    """Return the lines of a file, if it exists."""
    return path.read_text().splitlines() if path.exists() else []


def write(path: Path, line: str) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def made(folder: Path) -> Path:
    """Create *folder* if needed, and return it."""
    folder.mkdir(exist_ok=True)
    return folder


def begin(program: Program, folder: Path, point: int, **options: Any) -> ForkServerProcess:
    """Start *program* in a process that kills itself at *point*."""
    process = _forks.Process(target=_live, args=(program, folder, point, options))
    process.start()
    return process


def _live(program: Program, folder: Path, point: int, options: dict[str, Any]) -> None:
    asyncio.run(program(folder, kill_at(point), **options))


async def end(process: ForkServerProcess) -> bool:
    """Wait for the end of *process*, and return whether it was killed."""
    await asyncio.to_thread(process.join)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


async def killed(program: Program, folder: Path, point: int, **options: Any) -> bool:
    """Run *program* in a process, and return whether it was killed before its end."""
    return await end(begin(program, made(folder), point, **options))


@dataclass
class Suspending:
    """A program that suspends for an approval and is resumed after it, and the agent that it runs."""

    program: Program
    agent: Callable[[Path], AgentConfig[Any]]

    async def answer(self, folder: Path) -> None:
        """Approve what waits."""
        async with await SqliteStore.open(folder / "runs.db") as store:
            await steal(store, "run_1")
            runtime = Runtime([self.agent(folder)], Resources(store=store))
            for wait in await store.waits(ANN, run_id="run_1", open=True, limit=10):
                await runtime.approve(ANN, wait.key)
            await runtime.close()

    async def finish(self, folder: Path) -> RunResult:
        """Resume, approve and resume until the run has ended."""
        for _ in range(3):
            await self.answer(folder)
            try:
                result: RunResult = await self.program(folder, unbroken(), resume=True)
            except RunError as error:
                assert isinstance(error.result, RunResult)
                return error.result
            if result.status != "suspended":
                return result
        raise AssertionError("the run does not end")

    async def whole(self, folder: Path) -> tuple[RunResult, list[Moment]]:
        """Run the program without a kill; return its result and the moments at which it can be killed."""
        before, after = unbroken(), unbroken()
        assert (await self.program(made(folder), before)).status == "suspended"
        await self.answer(folder)
        result = await self.program(folder, after, resume=True)
        moments = [("", number, name) for number, name in enumerate(before.passed, 1) if number > 2]
        later = [("resume", number, name) for number, name in enumerate(after.passed, 1)]
        return result, moments + [each for each in later if not each[2].startswith("append:ended")]

    async def survive(self, folder: Path, moment: Moment) -> RunResult:
        """Kill the program at *moment*, and return the result of the next lives."""
        phase, number, _ = moment
        if phase:
            await self.program(made(folder), unbroken())
            await self.answer(folder)
        assert await killed(self.program, folder, number, **({"resume": True} if phase else {})), moment
        return await self.finish(folder)
