"""Real processes on real servers: a sub-agent and a tool on other targets, whose processes are killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.postgres.server import Server

from .bureau import STAMP_HELD, STAMPS
from .nats_server import NatsServer
from .shop import EFFECTS, HELD_AT, HOLD, STEPS
from .test_processes import Process

pytestmark = pytest.mark.postgres
CONFIG = """
    database = {database!r}
    nats = {nats!r}
    app = "tests.fleet.bureau:make_runtime"
    [targets]
    leads = ["lead"]
    desks = ["desk"]
    machines = []
    [worker]
    worker_targets = [{target!r}]
    grace = 0.0
"""


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_killed_processes_of_all_targets_are_replaced(server: Server, nats: NatsServer, tmp_path: Path) -> None:
    """Each is killed while it works; the lead's while it waits. Each effect happens once, and the bill is complete."""
    database, started = server.database(), []

    def start(target: str, *arguments: str) -> Process:
        config = CONFIG.format(database=database, nats=nats.url, target=target)
        (tmp_path / f"{target}.toml").write_text(config)
        started.append(Process(tmp_path, *(arguments or ("fleet", "run")), config=f"{target}.toml"))
        return started[-1]

    def kill(workers: list[Process], pid: str) -> None:
        (found,) = [each for each in workers if each.process.pid == int(pid)]
        assert found.signal(signal.SIGKILL) == -signal.SIGKILL

    def wait(done: Callable[[], bool]) -> None:
        while not done():
            time.sleep(0.01)

    hold, held, payments, stamps = (tmp_path / each for each in (HOLD, STAMP_HELD, EFFECTS, STAMPS))
    try:
        web = start("leads", "serve", "--port", "0")
        lead, desks, machines = (
            start("leads"),
            [start("desks") for _ in range(2)],
            [start("machines") for _ in range(2)],
        )
        hold.touch()
        held.touch()
        with httpx2.Client(base_url=web.ready["url"], trust_env=False, timeout=300) as client:
            made = client.post("/api/conversations", json={"agent": "lead"}).json()
            path = f"/api/conversations/{made['id']}/turns"
            turn = client.post(path, json={"text": "Pay all, and stamp it."}).json()
            wait(lambda: len(lines(payments)) >= HELD_AT)
            assert lead.signal(signal.SIGKILL) == -signal.SIGKILL
            kill(desks, lines(payments)[-1][1])
            hold.unlink()
            start("leads")
            wait(lambda: len(lines(stamps)) > 0)
            kill(machines, lines(stamps)[-1][1])
            held.unlink()
            client.get(f"{path}/{turn['id']}/events")
            (found,) = client.get(path).json()["items"]
        assert (found["state"], found["answer"]) == ("completed", "All is paid.; stamped")
        assert [int(n) for n, _ in lines(payments)] == list(range(STEPS))
        assert len({pid for _, pid in lines(payments)}) == 2
        assert len(lines(stamps)) == 1
    finally:
        for each in started:
            each.process.kill()
            each.process.wait(60)
            assert each.process.stdout is not None
            each.process.stdout.close()
