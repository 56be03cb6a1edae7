"""`concertino runs resume` and `fork` in another process than the run's first."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Shop


def listed(cli: Cli, *options: str) -> list[dict[str, Any]]:
    done = cli("runs", "list", "--json", "--db", "runs.db", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_fork_continues_from_a_step(shop: Shop, cli: Cli) -> None:
    shop("clerk", "lookup\nlookup\nbroken")
    (run,) = listed(cli)
    done = cli("runs", "fork", run["run_id"], "--step", "3", "--app", "shop:make_runtime", "--db", "runs.db")
    assert done.returncode == 0
    assert done.stdout.startswith("Answer: tea is 7; tea is 7; ValueError: no ")
    fork, _ = listed(cli)
    assert fork["forked_from"] == run["run_id"]
    shown = json.loads(cli("runs", "show", fork["run_id"], "--db", "runs.db", "--json").stdout)
    assert [step["step"] for step in shown["timeline"]] == [3, 4]
    assert shown["cost"] == "0.000000030"
    for step, says in (("9", "has no step 9"), ("0", "greater than or equal to 1"), ("x", "valid integer")):
        done = cli("runs", "fork", run["run_id"], "--step", step, "--app", "shop:make_runtime", "--db", "runs.db")
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
    assert len(listed(cli)) == 2


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("shop", "MODULE:NAME"),
        (":x", "MODULE:NAME"),
        ("nowhere:make", "ModuleNotFoundError"),
        ("shop:nothing", "has no attribute 'nothing'"),
        ("shop:make_nothing", "returned None"),
        ("shop:make_trouble", "RuntimeError: no key"),
    ],
)
def test_an_invalid_app_is_refused_in_one_line(shop: Shop, cli: Cli, app: str, says: str) -> None:
    shop("clerk", "supplier")
    (run,) = listed(cli)
    done = cli("runs", "resume", run["run_id"], "--app", app, "--db", "runs.db")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(("concertino: --app", "concertino: invalid --app"))
    assert says in line


def test_an_unknown_agent_needs_an_app(shop: Shop, cli: Cli) -> None:
    shop("clerk", "supplier")
    (run,) = listed(cli)
    done = cli("runs", "resume", run["run_id"], "--db", "runs.db")
    assert done.returncode == 2
    assert "agent 'clerk'" in done.stderr
    assert "--app" in done.stderr


def test_a_run_of_an_older_version_is_listed_and_not_resumed(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    from concertino.storage.sqlite.schema import APPLICATION_ID, migrations, statements

    connection = sqlite3.connect(tmp_path / "runs.db")
    for statement in statements(migrations()[0][1]):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    values = {
        "run_id": "run_old", "root_id": "run_old", "agent": "supervisor", "agent_path": "supervisor",
        "conversation_id": "", "user_id": "ann", "organization_id": "", "task": "Äpfel?", "started": 1.7e9,
        "status": "completed", "answer": "Rot.", "ended": 1.7e9 + 5,
    }  # fmt: skip
    assert set(values) <= set(columns)
    names = ", ".join(values)
    connection.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(values))})", [*values.values()])
    connection.commit()
    connection.close()
    (run,) = listed(cli)
    assert (run["run_id"], run["state"], run["task"], run["steps"]) == ("run_old", "completed", "Äpfel?", 0)
    shown = cli("runs", "show", "run_old", "--db", "runs.db")
    assert shown.returncode == 0
    assert "not recorded by the version" in shown.stdout
    assert "Rot." in shown.stdout
    for command in (("resume", "run_old"), ("fork", "run_old", "--step", "1"), ("stop", "run_old")):
        done = cli("runs", *command, "--db", "runs.db", *(() if command[0] == "stop" else ("--corpus", "pages")))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1].startswith("concertino: ")
