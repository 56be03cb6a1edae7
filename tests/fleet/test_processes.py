"""Real processes on real servers: a web process, and workers that are killed and drained."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from concertino import Scope
from concertino.runtime import Fleet, LocalBell
from concertino.storage import PostgresStore
from tests.postgres.server import Server

from ..runtime.kit import state
from .nats_server import NatsServer
from .shop import EFFECTS, HELD_AT, HOLD, STEPS, make_runtime
from .test_fleet import joined
from .test_publication import check, follower

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[2]


class Process:
    """A process of the fleet. It is ready once it has printed its first line."""

    def __init__(self, folder: Path, *arguments: str, config: str = "config.toml") -> None:
        environment = {**os.environ, "PYTHONPATH": ":".join([str(ROOT), *sys.path])}
        program = [sys.executable, "-m", "concertino.cli", *arguments, "--config", config, "--json"]
        self.process = subprocess.Popen(program, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.ready: dict[str, Any] = json.loads(self.process.stdout.readline())

    def signal(self, number: int) -> int:
        """Send a signal, and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(120)


@pytest.fixture(params=["nats", "postgres"])
def start(
    request: pytest.FixtureRequest, server: Server, nats: NatsServer, tmp_path: Path
) -> Iterator[Callable[..., Process]]:
    """Start a process of a fleet with a database of its own, over either bell."""
    over = f"nats = {nats.url!r}" if request.param == "nats" else ""
    config = f"""
        database = {server.database()!r}
        app = "tests.fleet.shop:make_runtime"
        {over}
        [targets]
        desks = ["desk"]
        [worker]
        worker_targets = ["desks"]
        grace = 0.0
    """
    (tmp_path / "config.toml").write_text(config)
    started: list[Process] = []

    def make(*arguments: str) -> Process:
        started.append(Process(tmp_path, *arguments))
        return started[-1]

    yield make
    for each in started:
        each.process.kill()
        each.process.wait(60)
        assert each.process.stdout is not None
        each.process.stdout.close()


def test_a_killed_worker_and_a_drained_one_are_replaced(start: Callable[..., Process], tmp_path: Path) -> None:
    web = start("serve", "--port", "0")
    workers = [start("fleet", "run"), start("fleet", "run")]
    assert workers[0].ready == {"targets": ["desks"], "coroutines": 16}
    effects, hold = tmp_path / EFFECTS, tmp_path / HOLD

    def payments() -> list[list[str]]:
        return [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []

    def held() -> Process:
        """Return the worker whose run is held in a model call."""
        while len(payments()) < HELD_AT:
            time.sleep(0.01)
        pid = int(payments()[-1][1])
        return next(each for each in workers if each.process.pid == pid)

    with httpx2.Client(base_url=web.ready["url"], trust_env=False, timeout=300) as client:
        made = client.post("/api/conversations", json={}).json()
        path = f"/api/conversations/{made['id']}/turns"

        def answer(turn: dict[str, Any]) -> str:
            client.get(f"{path}/{turn['id']}/events")
            found = next(each for each in client.get(path).json()["items"] if each["id"] == turn["id"])
            assert found["state"] == "completed"
            return str(found["answer"])

        hold.touch()
        turn = client.post(path, json={"text": "Pay all."}).json()
        killed = held()
        assert killed.signal(signal.SIGKILL) == -signal.SIGKILL
        hold.unlink()
        assert answer(turn) == "All is paid."
        assert [int(n) for n, _ in payments()] == list(range(STEPS)), "a once tool runs once"
        assert len({pid for _, pid in payments()}) == 2
        effects.unlink()
        workers.append(start("fleet", "run"))

        hold.touch()
        turn = client.post(path, json={"text": "Pay all again."}).json()
        drained = held()
        assert drained.signal(signal.SIGTERM) == 0
        hold.unlink()
        assert answer(turn) == "All is paid."
        assert len({pid for _, pid in payments()}) == 2
    assert web.signal(signal.SIGTERM) == 0
    assert web.process.pid not in {int(pid) for _, pid in payments()}


async def test_messages_of_a_killed_worker_and_of_its_successor_have_numbers_of_their_own(
    server: Server, nats: NatsServer, tmp_path: Path
) -> None:
    database = server.database()
    (tmp_path / "config.toml").write_text(f"""
        database = {database!r}
        app = "tests.fleet.shop:make_runtime"
        nats = {nats.url!r}
        publish = true
        [targets]
        desks = ["desk"]
        [worker]
        worker_targets = ["desks"]
    """)
    (tmp_path / HOLD).touch()
    started: list[Process] = []
    try:
        async with await PostgresStore.open(database) as store, follower(nats) as seen:
            async with joined(make_runtime(store), Fleet(bell=LocalBell(), targets={"desks": ["desk"]})) as web:
                conversation = await web.conversation(Scope("acme", "ann"), "c", agent="desk")
                turn = await conversation.send("Pay all.")
            started.append(await asyncio.to_thread(Process, tmp_path, "fleet", "run"))
            await state(lambda: seen.phases(turn.id).count("model_requested") == HELD_AT + 1)
            await asyncio.to_thread(started[0].signal, signal.SIGKILL)
            (tmp_path / HOLD).unlink()
            started.append(await asyncio.to_thread(Process, tmp_path, "fleet", "run"))
            await seen.ended(turn.id)
            await check(store, seen, turn.id)
            assert [each["source"] for each in seen.records()].count("unknown") == 1
            assert seen.phases(turn.id).count("resumed") == 1
    finally:
        for each in started:
            each.process.kill()
            each.process.wait(60)
            assert each.process.stdout is not None
            each.process.stdout.close()
