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

from concertino import OPERATOR, MemoryStore, SqliteStore, wiring
from concertino.cli.fleet_file import read_fleet_file
from concertino.errors import ConfigurationError
from concertino.runtime import LocalBell

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
        (CONFIG.replace('["desks"]', '["tasks"]'), "unknown target 'tasks': choose from desks, worker_generic"),
        (CONFIG.replace('"desk"', '"boss"'), "this worker has no agent 'boss' for its targets; it has: desk"),
        (
            CONFIG.replace("runs.db", "mysql://ann:secret@host"),
            "invalid database 'mysql://...': use a postgresql:// URL",
        ),
        (CONFIG.replace("desks =", '"a b" ='), "invalid target 'a b'"),
    ],
)
def test_invalid_files_are_refused(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert_refused(cli("fleet", "run", "--config", "config.toml"), message)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("databse = 'runs.db'", "unknown field databse: choose from database, nats, publish, app, "),
        ("database = 7", "invalid database 7: use a string"),
        ("database = ['secret']", "invalid database: use a string"),
        ("nats = 'http://ann:secret@host'", "invalid nats 'http:...': use a URL, such as 'nats://bus.internal:4222'"),
        ("nats = 'nats://ann:secret@host:port'", "invalid nats 'nats:...': use a URL, such as "),
        ("nats = 'ann:secret@host:99999'", "invalid nats 'host:99999...': use a URL, such as "),
        ("nats = 'nats://ann:secret@'", "invalid nats 'nats:...': it has no host; use a URL, such as "),
        ("nats = 'nats://:4222'", "invalid nats 'nats:...': it has no host; use a URL, such as "),
        ("nats = 'nats://bus:4222?x'", "invalid nats 'nats:...': it has a query or a fragment; use a URL, such as "),
        ("nats = 'wss://bus:443'", "invalid nats 'wss:...': WebSocket is not supported; use a URL, such as "),
        ("database = 'postgresql:/w:secret@db/chat'", "invalid database '...@db/chat': use a postgresql:// URL, or "),
        ("database = 'db.internal:5432/chat'", "invalid database 'db.internal:5432/chat': use a postgresql:// URL"),
        ("database = 'postgres//w:secret@h/chat'", "invalid database '...@h/chat': use a postgresql:// URL"),
        ("database = 'host=db dbname=chat'", "invalid database 'host=db dbname=chat': use a postgresql:// URL"),
        ("database = 'host=db password = secret'", "invalid database 'host=db password = ...': use a "),
        ("database = 'mysql://ann:secret@host'", "invalid database 'mysql://...': use a postgresql:// URL"),
        ("database = ''", "invalid database '': leave the field out, or use at least one character"),
        ("publish = true", "publish needs a NATS server: set nats, or leave publish out"),
        ("publish = 1", "invalid publish 1: use true or false"),
        ("corpus = 'docs'", "invalid corpus 'docs': use a list"),
        ("targets = ['desk']", "invalid targets: use a table"),
        ("[targets]\ndesks = 'desk'", "invalid targets.desks 'desk': use a list"),
        ("[targets]\ndesks = [1]", "invalid targets.desks.0 1: use a string"),
        ("[targets]\nDesks = []", "invalid targets: invalid target 'Desks': "),
        ("[targets]\na = ['desk']\nb = ['desk']", "invalid targets: agent 'desk' has two targets: 'a' and 'b'"),
        ("[allowed_tools]\ndesk = 'pay'", "invalid allowed_tools.desk 'pay': use a list"),
        ("rate_limits.x = 1", "invalid rate_limits.x 1: use a table"),
        ("rate_limits.x.rpm = 1", "unknown field rate_limits.x.rpm: choose from requests_per_minute, "),
        ("rate_limits.x.requests_per_minute = 0", "invalid rate_limits.x.requests_per_minute 0: use a number above 0"),
        ("rate_limits.x.tokens_per_minute = inf", "invalid rate_limits.x.tokens_per_minute inf: use a finite number"),
        ("rate_limits.x.max_concurrent = 1.5", "invalid rate_limits.x.max_concurrent 1.5: use a whole number"),
        (
            "rate_limits.x.max_concurrent = 200000",
            "invalid rate_limits.x.max_concurrent 200000: use a number of at most ",
        ),
        ("rate_limits.''.max_concurrent = 1", "invalid rate_limits '': use the name of a provider"),
        ("worker = 1", "invalid worker 1: use a table"),
        ("worker.coroutine = 1", "unknown field worker.coroutine: choose from worker_targets, coroutines, grace"),
        ("worker.coroutines = 0", "invalid worker.coroutines 0: use a number of at least 1"),
        (f"worker.coroutines = {10**30}", f"invalid worker.coroutines {10**30}: use a number of at most 100,000"),
        ("worker.coroutines = '8'", "invalid worker.coroutines '8': use a whole number"),
        ("worker.grace = true", "invalid worker.grace True: use a number"),
        ("worker.grace = 1e300", "invalid worker.grace 1e+300: use a number of at most 86,400"),
        ("targets.svc1_ = ['desk']", "invalid targets: invalid target 'svc1_': a target with one consumer is named "),
        ("targets.svc1_foo = ['desk']", "invalid targets: invalid target 'svc1_foo': a target with one consumer is "),
        ("worker.worker_targets = []", "invalid worker.worker_targets: name at least one"),
        (
            "worker.worker_targets = ['worker_generic', 'worker_generic']",
            "invalid worker.worker_targets: target 'worker_generic' is listed twice: list it once",
        ),
        ("worker.worker_targets = ['x']", "invalid worker.worker_targets: unknown target 'x': choose from "),
    ],
)
def test_an_invalid_field_is_named_with_its_remedy(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_fleet_file(str(path))
    assert str(caught.value).startswith(f"{path}: {problem}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("command", [("fleet", "run"), ("serve",), ("mcp", "serve")])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "config.toml: the database is missing: use a postgresql:// URL, or the path of a SQLite file"),
        ("database = 'data/runs.db'", "config.toml: invalid database 'data/runs.db': create the folder data first"),
    ],
)
def test_no_database_is_made_up(cli: Cli, tmp_path: Path, command: tuple[str, ...], text: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert_refused(cli(*command, "--config", "config.toml"), message)
    assert not (tmp_path / "data").exists()


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('\ufeffdatabase = "runs.db"', "utf-8")
    assert read_fleet_file(str(path)).database == "runs.db"


@pytest.mark.parametrize("name", ["/home/ann@firm/runs.db", "./a=b.db", "~/x:y.db", "C:\\runs@home.db", "runs.db"])
def test_the_path_of_a_file_may_have_any_characters(name: str) -> None:
    assert not wiring.is_url(name)
    assert not wiring.is_url(Path("a=b@c:d.db"))


@pytest.mark.parametrize(
    ("provider", "warning"),
    [
        ("antropic", "'antropic'; did you mean 'anthropic'?"),
        ("claude", "'claude'; the providers of the package are anthropic, openai, google, "),
        *[(name, "") for name in ("anthropic", "groq", "azure", "openai-compatible", "demo")],
    ],
)
def test_limits_of_an_unknown_provider_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, provider: str, warning: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"[rate_limits.{provider}]\nrequests_per_minute = 60")
    assert list(read_fleet_file(str(path)).fleet(LocalBell(), (), MemoryStore()).rate_limits) == [provider]
    start = f"rate_limits.{provider} limits only models whose provider is named {warning}" if warning else ""
    assert start in caplog.text
    assert bool(caplog.messages) == bool(warning)


@pytest.mark.parametrize("nats", ["nats://bus:4222/", "nats://a:4222,nats://b", "tls://ann:x@bus", "bus", "bus:4222"])
def test_urls_of_nats(tmp_path: Path, nats: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"nats = {nats!r}")
    assert read_fleet_file(str(path)).nats == nats


def test_a_worker_needs_a_file(cli: Cli) -> None:
    assert_refused(cli("fleet", "run", "--db", "runs.db"), "concertino fleet run --config config.toml")
    assert_refused(cli("fleet", "run", "--config", "none.toml"), "none.toml cannot be read")


@pytest.mark.parametrize("command", [("fleet", "run"), ("serve",)])
def test_the_file_of_an_invalid_url_is_named(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "config.toml"
    path.write_text('database = "postgresql://db.internal/chat?sslmod=require"\n[targets]\ndesks = ["desk"]\n')
    problem = f"{path}: the URL of the database has the unknown parameter 'sslmod': did you mean 'sslmode'?"
    assert_refused(cli(*command, "--config", str(path)), problem)
