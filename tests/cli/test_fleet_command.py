"""`concertino fleet run` and `concertino serve --config`, on a SQLite file."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from concertino import OPERATOR, SqliteStore

from .conftest import Cli, assert_refused
from .test_serve_command import served

CONFIG = """
database = "runs.db"
app = "tests.fleet.shop:make_runtime"
[targets]
desks = ["desk"]
[worker]
worker_targets = ["desks"]
[rate_limits.scripted]
requests_per_minute = 60_000
tokens_per_minute = 1e9
max_concurrent = 8
"""


def test_a_web_process_records_and_a_worker_runs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)

    def visit(client: httpx2.Client) -> Any:
        made = client.post("/api/conversations", json={}).json()
        turn = client.post(f"/api/conversations/{made['id']}/turns", json={"text": "Pay all."}).json()
        return turn["id"], turn["state"]

    (run_id, state), done = served(cli, visit, "--config", "config.toml")
    assert (state, done.returncode) == ("queued", 0)

    quotas = list[str]()

    async def end() -> None:
        async with await SqliteStore.open(tmp_path / "runs.db") as store:
            while (run := await store.run(OPERATOR, run_id)) is None or run.end is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            drawn = await store._connection.run(lambda each: each.execute("SELECT key FROM quotas").fetchall())
            quotas.extend(key for (key,) in drawn)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=asyncio.run, args=(end(),))
    thread.start()
    done = cli("fleet", "run", "--config", "config.toml")
    thread.join()
    assert done.returncode == 0
    assert "taking desks with 16 coroutines" in done.stderr
    assert "draining: runs have 20 s to end" in done.stderr
    assert quotas == ["scripted"], "all workers draw on it"
    assert len((tmp_path / "effects").read_text().splitlines()) == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("database = [", "config.toml is not valid TOML"),
        ("databse = 'runs.db'", "config.toml: invalid databse: Extra inputs are not permitted"),
        ("[worker]\ncoroutines = 0", "config.toml: invalid worker.coroutines"),
        (CONFIG.replace("60_000", "0"), "config.toml: invalid rate_limits.scripted.requests_per_minute"),
        (CONFIG.replace('["desks"]', '["tasks"]'), "unknown target 'tasks': choose from desks, worker_generic"),
        (CONFIG.replace('"desk"', '"boss"'), "this worker has no agent 'boss' for its targets; it has: desk"),
        (CONFIG.replace("desks =", '"a b" ='), "invalid target 'a b'"),
    ],
)
def test_invalid_files_are_refused(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert_refused(cli("fleet", "run", "--config", "config.toml"), message)


def test_a_worker_needs_a_file(cli: Cli) -> None:
    assert_refused(cli("fleet", "run", "--db", "runs.db"), "concertino fleet run --config config.toml")
    assert_refused(cli("fleet", "run", "--config", "none.toml"), "none.toml cannot be read")
