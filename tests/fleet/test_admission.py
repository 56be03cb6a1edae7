"""Real processes behind one rate limit: they share it, take turns, and lose nothing to a killed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from concertino.testing.limited import read_requests

from .caller import RATE

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SECOND = RATE / 60


class Caller:
    """A process that makes requests once `go` is called."""

    def __init__(self, database: str, folder: Path, user: str, requests: int, allowed: int) -> None:
        environment = {**os.environ, "PYTHONPATH": ":".join([str(ROOT), *sys.path])}
        program = [sys.executable, "-m", "tests.fleet.caller", database, str(folder), user, str(requests), str(allowed)]
        self.process = subprocess.Popen(program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def go(self) -> None:
        """Let the process make its requests."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Kill the process, if it has not ended."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def call(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Caller]]:
    """Start a process that makes requests for a user, on a database that all of them share."""
    database = str(tmp_path / "runs.db")
    if request.param == "postgres":
        database = request.getfixturevalue("server").database()
    started: list[Caller] = []

    def start(user: str, requests: int, allowed: int = 10_000) -> Caller:
        started.append(Caller(database, tmp_path, user, requests, allowed))
        return started[-1]

    yield start
    for each in started:
        each.close()


def sent(folder: Path, user: str = "") -> list[float]:
    """Return the times at which requests were sent, of one user or of all."""
    return [at for at, state, who in read_requests(folder / "requests") if state == "sent" and user in ("", who)]


def test_processes_share_one_limit(call: Callable[..., Caller], tmp_path: Path) -> None:
    callers = [call(f"user{number}", 60) for number in range(4)]
    begin = time.monotonic()
    for each in callers:
        each.go()
    for each in callers:
        assert each.process.wait(300) == 0
    times = sent(tmp_path)
    assert len(times) == 240
    # After the burst and a second's part, a fixed number a second; a slow machine only makes it later.
    assert times[-1] - begin >= (240 - RATE / 10 - SECOND) / SECOND


def test_one_request_is_not_behind_a_thousand_and_a_killed_process_blocks_none(
    call: Callable[..., Caller], tmp_path: Path
) -> None:
    many, one, later = call("many", 1_000), call("one", 1), call("later", 100)
    many.go()
    while len(sent(tmp_path, "many")) < RATE / 10:
        time.sleep(0.01)
    one.go()
    assert one.process.wait(300) == 0
    assert len(sent(tmp_path, "many")) < 900
    many.process.send_signal(signal.SIGKILL)
    many.process.wait(60)
    later.go()
    assert later.process.wait(300) == 0
    assert len(sent(tmp_path, "later")) == 100


def test_a_provider_that_allows_less_slows_all(call: Callable[..., Caller], tmp_path: Path) -> None:
    callers = [call(f"user{number}", 40, 35) for number in range(3)]
    for each in callers:
        each.go()
    for each in callers:
        assert each.process.wait(300) == 0, "a request that was refused is sent again"
    states = [state for _, state, _ in read_requests(tmp_path / "requests")]
    assert states.count("sent") - states.count("refused") == 120
    assert states.count("refused") > 0
