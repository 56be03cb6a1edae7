"""Real faults of SQLite under a run: it fails closed, is not marked as ended, and goes on when the fault is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, Limits, ModelRequest, Resources, RunResult, SqliteStore, tool
from concertino.errors import RunClaimedError, StorageError
from concertino.messages import ToolMessage
from concertino.orchestrator import replay
from concertino.runtime import LiveRun, Runtime
from concertino.storage import StoredJournal
from concertino.testing import Answer, ScriptedModel, call
from tests.policy.faults import (
    deleted,
    file_size_limit,
    full_disk,
    lose_the_end,
    read_only,
    small_disk,
    spoiled_page,
    stopped_writer,
    synced_size,
)

STEPS = 6
LEASE = 0.3
MANY = Limits(tool_calls=1_000)
Inject = Callable[[], None]


class Worker(AgentConfig[None]):
    """Does something once in each step, and keeps count outside of the store."""

    name = "worker"

    def __init__(self, at: int = 0, inject: Inject | None = None) -> None:
        self.effects: list[int] = []

        @tool(effect="once")
        async def work(n: int) -> str:
            """Work."""
            self.effects.append(n)
            if n == at and inject is not None:
                inject()
            return f"did {n} " + "and more " * 300

        self.tools = [work]


def model(at: int = 0, inject: Inject | None = None, steps: int = STEPS) -> ScriptedModel:
    """Asks for the next piece of work, whoever asks it; faults come in while it answers."""

    def says(request: ModelRequest) -> Any:
        done = sum(isinstance(message, ToolMessage) for message in request.messages)
        if done == at and inject is not None:
            inject()
        if done >= steps:
            return "finished"
        return Answer(text=f"working on {done + 1}", calls=(call("work", n=done + 1),))

    return ScriptedModel(*[says] * 2 * steps)


async def start(
    store: SqliteStore, agent: Worker, asked: ScriptedModel, run_id: str | None = None, **more: Any
) -> tuple[Runtime, LiveRun]:
    runtime = Runtime([agent], Resources(store=store, models=lambda _: asked, **more), lease=LEASE)
    return runtime, await runtime.start(Chat("go", model=asked), agent, run_id=run_id)


def check_integrity(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def resumed(store: SqliteStore, run_id: str, agent: AgentConfig[None], steps: int = STEPS) -> RunResult:
    """The run, taken up and brought to its end, once nobody holds it any more."""
    answering = model(steps=steps)
    runtime = Runtime([agent], Resources(store=store, models=lambda _: answering), lease=LEASE)
    while True:
        with contextlib.suppress(RunClaimedError):
            return await (await runtime.resume(OPERATOR, run_id)).result()
        await asyncio.sleep(0.02)


async def check_goes_on(store: SqliteStore, run_id: str, agent: Worker) -> None:
    """It has not ended, and ends well; nothing was done twice, and every call has one result."""
    stored = await store.run(OPERATOR, run_id)
    assert stored is not None
    assert stored.end is None
    result = await resumed(store, run_id, agent)
    assert (result.status, result.text) == ("completed", "finished"), result.error
    assert sorted(set(agent.effects)) == sorted(agent.effects), "a `once` tool was run twice"
    assert sum(isinstance(message, ToolMessage) for message in result.messages) == STEPS
    journal = await store.load(OPERATOR, run_id)
    assert journal is not None
    assert [entry.seq for entry in journal.entries] == list(range(len(journal.entries)))


FAULTS: dict[str, tuple[Callable[[Path], AbstractContextManager[None]], str]] = {
    "no file may grow": (file_size_limit, "check the disk and its free space|free some space"),
    "another process stopped while it wrote": (stopped_writer, "was stopped in the middle of a write: continue"),
    "a damaged page": (spoiled_page, "is corrupt: restore a backup"),
    "the file is gone": (deleted, ""),
}


async def fault_in_a_run(path: Path, fault: AbstractContextManager[None], says: str, where: str) -> None:
    """A run into a fault, in a tool or while the model answers, and on when it is gone."""
    with contextlib.ExitStack() as faults:

        def inject() -> None:
            if not begun:
                begun.append(True)
                faults.enter_context(fault)

        begun: list[bool] = []
        agent = Worker(3, inject) if where == "in a tool" else Worker()
        asked = model(3, inject) if where == "in an answer" else model()
        store = await SqliteStore.open(path, busy_timeout=0.2)
        _, run = await start(store, agent, asked)
        result = await run.result()
        assert begun
        assert result.status == "failed"
        assert result.error is not None
        assert "StorageError" in result.error
        assert str(path) in result.error
        assert any(part in result.error for part in says.split("|")), result.error
        assert agent.effects == [1, 2, 3], "nothing is done that cannot be put on record"
    await store.close()
    check_integrity(path)
    async with await SqliteStore.open(path) as again:
        await check_goes_on(again, run.id, agent)
    check_integrity(path)


@pytest.mark.parametrize("where", ["in a tool", "in an answer"])
@pytest.mark.parametrize("name", FAULTS)
async def test_a_run_fails_closed_and_goes_on(tmp_path: Path, name: str, where: str) -> None:
    fault, says = FAULTS[name]
    path = tmp_path / "runs.db"
    await fault_in_a_run(path, fault(path), says, where)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder) as mounted:
        if not mounted:
            pytest.skip("no disk can be mounted here")
        yield folder


@pytest.mark.parametrize("where", ["in a tool", "in an answer"])
async def test_a_full_disk(disk: Path, where: str) -> None:
    path = disk / "runs.db"
    await fault_in_a_run(path, full_disk(path), "free some space|check the disk and its free space", where)


async def test_a_disk_that_can_only_be_read(disk: Path) -> None:
    path, reached = disk / "runs.db", asyncio.Event()
    agent, asked = Worker(3, reached.set), model()
    async with await SqliteStore.open(path) as store:
        runtime, run = await start(store, agent, asked)
        await reached.wait()
        await runtime.close()
    with read_only(disk), pytest.raises(StorageError, match=r"disk.* is not writable: grant this user write access"):
        await SqliteStore.open(path)
    async with await SqliteStore.open(path) as again:
        await check_goes_on(again, run.id, agent)
    check_integrity(path)


async def test_a_file_that_becomes_read_only_is_still_open_for_its_run(tmp_path: Path) -> None:
    """Rights are asked for when a file is opened: a run that has it goes on, and is whole."""
    path = tmp_path / "runs.db"
    agent, asked = Worker(3, lambda: path.chmod(0o444)), model()
    async with await SqliteStore.open(path) as store:
        _, run = await start(store, agent, asked)
        assert (await run.result()).status == "completed"
    check_integrity(path)


async def test_a_watchdog_takes_the_run_up_when_the_fault_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with contextlib.ExitStack() as faults:
        agent = Worker(3, lambda: faults.enter_context(stopped_writer(path)))
        asked = model()
        async with await SqliteStore.open(path, busy_timeout=0.1) as store:
            async with Runtime(
                [agent], Resources(store=store, models=lambda _: asked), sweep=0.02, lease=LEASE
            ) as runtime:
                run = await runtime.start(Chat(model=asked, message="go"), agent)
                assert "stopped in the middle of a write" in ((await run.result()).error or "")
                faults.close()
                while not await store.runs(OPERATOR, state="completed"):  # noqa: ASYNC110 - another process announces nothing
                    await asyncio.sleep(0.01)
            assert [run.end and run.end.answer for run in await store.runs(OPERATOR)] == ["finished"]
            assert agent.effects == [1, 2, 3, 4, 5, 6]


async def live(path: str) -> None:
    """What the process does whose power is cut."""
    asked = model(steps=60)
    async with await SqliteStore.open(path) as store:
        _, run = await start(store, Worker(), asked, run_id="run", limits=lambda *_: MANY)
        assert (await run.result()).status == "completed"


def photographs(path: Path, folder: Path, seed: int) -> list[tuple[Path, int]]:
    """Copies of the file and its log while a run goes on, each of one moment, and the log's synced size."""
    rng, copies = random.Random(seed), list[tuple[Path, int]]()
    program = f"import asyncio; from {__name__} import live; asyncio.run(live({str(path)!r}))"
    with subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[2]) as process:
        while process.poll() is None:
            time.sleep(rng.random() * 0.02)
            os.kill(process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            copy = folder / f"{len(copies)}" / path.name
            if path.exists() and path.stat().st_size:
                copy.parent.mkdir()
                for suffix in ("", "-wal"):
                    with contextlib.suppress(FileNotFoundError):
                        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
                copies.append((copy, synced_size(Path(f"{path}-shm"))))
            os.kill(process.pid, signal.SIGCONT)
    assert process.returncode == 0
    return copies


async def journal_of(path: Path) -> StoredJournal | None:
    async with await SqliteStore.open(path) as store:
        return await store.load(OPERATOR, "run")


@pytest.mark.parametrize("seed", range(2))
async def test_a_power_cut_leaves_a_journal_that_is_a_prefix(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "runs.db", random.Random(seed)
    copies = photographs(path, tmp_path, seed)
    whole = await journal_of(path)
    assert whole is not None
    lengths = []
    for number, (copy, synced) in enumerate(copies):
        if number % 2:
            lose_the_end(Path(f"{copy}-wal"), rng, synced=synced, garbled=number % 4 == 1)
        part = await journal_of(copy)
        check_integrity(copy)
        if part is not None:
            assert part.entries == whole.entries[: len(part.entries)]
            replay(part)
            lengths.append(len(part.entries))
    assert len(set(lengths)) > 3, "the photographs are of different moments"
    for copy, _ in copies[-2:]:
        async with await SqliteStore.open(copy) as store:
            stored = await store.run(OPERATOR, "run")
            if stored is not None and stored.end is None:
                assert (await resumed(store, "run", Worker(), steps=60)).status == "completed"
