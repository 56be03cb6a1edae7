"""A fleet on one machine, from Python packages alone: `make fleet`.

It starts PostgreSQL and NATS, two web processes and three workers, and asks for a research, whose researchers run on
another target than their supervisor. Then it kills a worker in the middle of a researcher's work, and the web process
that a reader follows. It prints the report, the timeline by machine and the bill.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from concertino import OPERATOR
from concertino.storage import PostgresStore
from concertino.storage.process import process_name
from tests.postgres.server import Server

from .machines import Row, machine_lines
from .nats_server import NatsServer

QUESTION = "How do task groups handle errors? How does asyncio.gather handle errors? How does a timeout cancel a task?"
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
CONFIG = """\
database = "{database}"
nats = "{nats}"
app = "tests.fleet.research:make_runtime"
[targets]
research = ["supervisor"]
library = ["researcher"]
[worker]
worker_targets = ["{target}"]
coroutines = 2
"""
WORKERS = ("research", "library", "library")
"""The target of each worker."""


class Process:
    """A process of the fleet. It is ready once it has printed its first line."""

    def __init__(self, folder: Path, name: str, target: str, *arguments: str) -> None:
        self.name, self.target = name, target
        program = [sys.executable, "-m", "concertino.cli", *arguments, "--config", f"{target}.toml", "--json"]
        self._process = subprocess.Popen(
            program, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.pid = self._process.pid

    def ready(self) -> dict[str, Any]:
        """Wait until the process works, and return what it prints then."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self.name} ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate()


def show(text: str) -> None:
    """Print a line of progress."""
    print(f"  {time.strftime('%H:%M:%S')}  {text}", flush=True)


def heading(text: str) -> None:
    """Print the title of a part."""
    print(f"\n=== {text} ===\n", flush=True)


def main() -> None:
    """Run the demonstration."""
    with fleet() as (url, web, workers):
        heading("The research, and two kills")
        turn, report, happened = research(url, web, workers)
        heading("The report")
        print(report)
        heading("The timeline by machine")
        names = {f"{socket.gethostname()}:{each.pid}": each.name for each in workers}
        print("\n".join(asyncio.run(machine_lines(url, turn, names, happened))))
        heading("The bill")
        bill = [sys.executable, "-m", "concertino.cli", "usage", "--by", "agent", "--by", "model", "--db", url]
        subprocess.run(bill, check=True, env=ENVIRONMENT)
        print("\nUnknown are the attempts whose worker was killed: nothing shows what their answers cost.")


@contextmanager
def fleet() -> Iterator[tuple[str, dict[str, Process], list[Process]]]:
    """Start everything for a `with` block: yield the database's URL, the web processes by address, the workers."""
    began = time.monotonic()
    heading("A fleet on one machine, from Python packages")
    database, bus = Server(), NatsServer()
    processes: list[Process] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            database.start()
            bus.start()
            url = database.database()
            for target in set(WORKERS):
                (folder / f"{target}.toml").write_text(CONFIG.format(database=url, nats=bus.url, target=target))
            show(f"PostgreSQL listens on port {database.port}, NATS on port {bus.port}")
            web = [Process(folder, f"web {n}", "research", "serve", "--port", "0") for n in (1, 2)]
            processes += web
            workers = [Process(folder, f"worker {n}", each, "fleet", "run") for n, each in enumerate(WORKERS, 1)]
            processes += workers
            by_address = {each.ready()["url"]: each for each in web}
            for address, each in by_address.items():
                show(f"{each.name:9} process {each.pid:<8} {address}")
            for each in workers:
                each.ready()
                show(f"{each.name:9} process {each.pid:<8} target {each.target}")
            show(f"ready after {time.monotonic() - began:.0f} s")
            yield url, by_address, workers
        finally:
            for each in processes:
                each.kill()
            bus.stop()
            database.close()


def research(url: str, web: dict[str, Process], workers: list[Process]) -> tuple[str, str, list[Row]]:
    """Ask at a web process, kill a worker and that process, and read on at the other one.

    Return the turn's id, the report, and what is not in the journals of the runs.
    """
    happened: list[Row] = []

    def note(process: Process, text: str) -> None:
        happened.append((time.time(), process.name, "", text))
        show(f"{process.name} {text}")

    (first, asked), (second, other) = web.items()
    with httpx2.Client(base_url=first, trust_env=False, timeout=600) as client:
        made = client.post("/api/conversations", json={"agent": "supervisor"}).raise_for_status().json()
        path = f"/api/conversations/{made['id']}/turns"
        show(f"question: {QUESTION}")
        note(asked, "takes the question")
        turn = client.post(path, json={"text": QUESTION}).raise_for_status().json()["id"]
        last = "0"
        with suppress(httpx2.TransportError), client.stream("GET", f"{path}/{turn}/events") as response:
            for line in response.iter_lines():
                last = line.removeprefix("id: ") if line.startswith("id: ") else last
                if "call_waiting" in line:
                    break
    victim = asyncio.run(researching(url, workers))
    victim.kill()
    note(victim, "is killed, while a researcher waits for the model")
    asked.kill()
    note(asked, f"is killed, after a reader got event {last} of the research from it")
    with httpx2.Client(base_url=second, trust_env=False, timeout=600) as client:
        response = client.get(f"{path}/{turn}/events", headers={"Last-Event-ID": last}).raise_for_status()
        numbers = [int(line.removeprefix("id: ")) for line in response.text.splitlines() if line.startswith("id: ")]
        note(other, f"shows that reader the rest, events {numbers[0]} to {numbers[-1]}")
        done = next(each for each in client.get(path).json()["items"] if each["id"] == turn)
        show(f"the turn is {done['state']}")
    return turn, done["answer"], happened


async def researching(url: str, workers: list[Process]) -> Process:
    """Return a worker whose researcher waits for the model's second answer, as soon as there is one."""
    by_pid = {str(each.pid): each for each in workers}
    async with await PostgresStore.open(url) as store:
        while True:
            for operation in await store.operations(OPERATOR):
                if operation.kind == "model_call" and operation.step > 1:
                    run = await store.run(OPERATOR, operation.run_id)
                    pid = "" if run is None else process_name(run.owner).rpartition(":")[2]
                    if run is not None and run.start.agent == "researcher" and pid in by_pid:
                        return by_pid[pid]
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    main()
