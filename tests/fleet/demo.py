"""A fleet on one machine, from Python packages alone: `make fleet`.

It starts PostgreSQL and NATS, a web process and three workers, asks for a research, and kills the worker that runs it,
and then the one that takes over. It prints the report and the bill.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from concertino import OPERATOR
from concertino.storage import PostgresStore
from tests.postgres.server import Server

from .nats_server import NatsServer

QUESTION = "When do I use threads, and when processes? How do I stop each of them?"
WORKERS, KILLS = 3, 2
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def started(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a process, and return it with the line that it prints when it is ready."""
    program = [sys.executable, "-m", "concertino.cli", *arguments, "--config", "config.toml", "--json"]
    process = subprocess.Popen(program, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


async def worker_of(url: str, run_id: str, known: set[int]) -> int | None:
    """Return the pid of a worker of *known* that has the run, as soon as one has; None if the run has ended before."""
    async with await PostgresStore.open(url) as store:
        while True:
            run = await store.run(OPERATOR, run_id)
            if run is not None and run.end is not None:
                return None
            parts = run.owner.split("/") if run is not None else []
            if len(parts) > 4 and int(parts[4]) in known:  # the owner names the process
                return int(parts[4])
            await asyncio.sleep(0.005)


def show(text: str) -> None:
    """Print a line of progress."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def main() -> None:
    """Run the demonstration."""
    database, bus = Server(), NatsServer()
    processes: dict[int, subprocess.Popen[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            database.start()
            bus.start()
            url = database.database()
            (folder / "config.toml").write_text(
                f'database = "{url}"\nnats = "{bus.url}"\nmodel = "demo"\n'
                '[targets]\nresearch = ["supervisor", "researcher"]\n[worker]\nworker_targets = ["research"]\n'
            )
            show(f"PostgreSQL listens on port {database.port}, NATS on port {bus.port}")
            web, ready = started(folder, "serve", "--port", "0")
            processes[web.pid] = web
            workers = [started(folder, "fleet", "run")[0] for _ in range(WORKERS)]
            processes |= {worker.pid: worker for worker in workers}
            show(f"the web process is {web.pid}, the workers are {', '.join(str(worker.pid) for worker in workers)}")
            research(url, ready["url"], {worker.pid: worker for worker in workers})
            bill = [sys.executable, "-m", "concertino.cli", "usage", "--by", "agent", "--by", "model", "--db", url]
            subprocess.run(bill, check=True, env=ENVIRONMENT)
        finally:
            for process in processes.values():
                process.kill()
                process.communicate()
            bus.stop()
            database.close()


def research(url: str, address: str, workers: dict[int, subprocess.Popen[str]]) -> None:
    """Ask, kill workers in the middle of the run, and print the report."""
    with httpx2.Client(base_url=address, trust_env=False, timeout=600) as client:
        made = client.post("/api/conversations", json={"agent": "supervisor"}).raise_for_status().json()
        path = f"/api/conversations/{made['id']}/turns"
        turn = client.post(path, json={"text": QUESTION}).raise_for_status().json()
        for _ in range(KILLS):
            pid = asyncio.run(worker_of(url, turn["id"], set(workers)))
            if pid is None:
                break
            workers.pop(pid).send_signal(signal.SIGKILL)
            show(f"killed worker {pid}, which had the run")
        client.get(f"{path}/{turn['id']}/events").raise_for_status()
        done = next(each for each in client.get(path).json()["items"] if each["id"] == turn["id"])
        show(f"the turn is {done['state']}; its report:\n\n{done['answer']}\n")


if __name__ == "__main__":
    main()
