"""Real processes that want to be the only consumer of a target."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.postgres.server import Server

from .nats_server import NatsServer
from .shop import EFFECTS, HELD_AT, HOLD, STEPS
from .test_processes import ROOT, Process

pytestmark = pytest.mark.postgres
CONFIG = """
    database = {database!r}
    nats = {nats!r}
    app = "tests.fleet.shop:make_runtime"
    [targets]
    svc1_desks_test = ["desk"]
    [worker]
    worker_targets = ["svc1_desks_test"]
"""
Consumer = subprocess.Popen[str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Consumer]]:
    """Start a worker, which may be refused."""
    started: list[Consumer] = []
    environment = {**os.environ, "PYTHONPATH": ":".join([str(ROOT), *sys.path])}
    program = [sys.executable, "-m", "concertino.cli", "fleet", "run", "--config", "config.toml", "--json"]

    def make() -> Consumer:
        pipe = subprocess.PIPE
        made = subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)
        started.append(made)
        return made

    yield make
    for each in started:
        each.kill()
        each.communicate()


def is_taking(consumer: Consumer) -> bool:
    """Return whether the worker takes its target; wait for its decision."""
    assert consumer.stdout is not None
    if line := consumer.stdout.readline():
        assert json.loads(line)["targets"] == ["svc1_desks_test"]
        return True
    _, problem = consumer.communicate()
    assert "target 'svc1_desks_test' has a consumer" in problem
    assert consumer.returncode != 0
    return False


def test_of_two_processes_one_is_refused_until_the_other_is_dead(
    start: Callable[[], Consumer], server: Server, nats: NatsServer, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(database=server.database(), nats=nats.url))
    web = Process(tmp_path, "serve", "--port", "0")
    hold, effects = tmp_path / HOLD, tmp_path / EFFECTS

    def payments() -> list[list[str]]:
        return [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []

    try:
        at_once = [start() for _ in range(3)]
        (first,) = [each for each in at_once if is_taking(each)]
        hold.touch()
        with httpx2.Client(base_url=web.ready["url"], trust_env=False, timeout=300) as client:
            made = client.post("/api/conversations", json={}).json()
            path = f"/api/conversations/{made['id']}/turns"
            turn = client.post(path, json={"text": "Pay all."}).json()
            while len(payments()) < HELD_AT:
                time.sleep(0.01)
            assert not is_taking(start()), "the consumer works"
            first.send_signal(signal.SIGKILL)
            first.wait(60)
            hold.unlink()
            while not is_taking(second := start()):
                pass  # until the lease of the dead one ends
            client.get(f"{path}/{turn['id']}/events")
            (found,) = client.get(path).json()["items"]
        assert (found["state"], found["answer"]) == ("completed", "All is paid.")
        assert [int(n) for n, _ in payments()] == list(range(STEPS))
        assert {int(pid) for _, pid in payments()} == {first.pid, second.pid}
        second.send_signal(signal.SIGTERM)
        assert second.wait(120) == 0
        assert is_taking(start()), "a process that ends leaves the target at once"
    finally:
        web.process.kill()
        web.process.communicate()
