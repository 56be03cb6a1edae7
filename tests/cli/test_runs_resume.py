"""Runs that go on in another process: after `kill -9`, after an answer, forked, and stopped from outside."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, kept
from tests.cli.test_stopping import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to the process")
HERE = Path(__file__).parent
QUESTION = "What are apples, and what do pears need?"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(environment: dict[str, str], corpus: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts Python with these arguments, in the folder of the test; nothing of it is left running."""
    shutil.copy(HERE / "shop.py", tmp_path)
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment | (env or {}),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def listed(cli: Cli, *options: str) -> list[dict[str, Any]]:
    done = cli("runs", "list", "--json", "--db", "runs.db", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def research_until(start: Start, at: int) -> subprocess.Popen[str]:
    """A research that waits in its *at*-th request."""
    env = {"PAUSE_AT": str(at), "QUESTION": QUESTION}
    process = start(str(HERE / "driver.py"), "research", "pausing", "runs.db", env=env)
    wait_for(process, "waiting")
    return process


@pytest.mark.parametrize("at", [1, 2, 5, 8])
def test_a_killed_research_is_completed_by_another_process(start: Start, cli: Cli, tmp_path: Path, at: int) -> None:
    whole = json.loads(cli("research", QUESTION, "--corpus", "pages", "--json").stdout)
    kill(research_until(start, at))
    (run,) = listed(cli, "--state", "interrupted")
    assert listed(cli, "--state", "running") == []
    shown = cli("runs", "show", run["run_id"], "--db", "runs.db")
    assert f"concertino runs resume {run['run_id']}" in shown.stdout
    done = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_totals_known(found)
    assert found["run_id"] == run["run_id"]
    assert (found["status"], found["question"]) == ("completed", QUESTION)
    assert found["report"] == whole["report"]
    assert found["sources"] == whole["sources"]
    assert {state for state, _ in kept(tmp_path / "runs.db").values()} == {"completed"}
    # What was being asked is booked as unknown, and costs nobody knows what: one attempt, or one of each researcher.
    lost = [record["source"] for record in found["usage"]].count("unknown")
    assert 1 <= lost <= 2
    assert len(found["usage"]) == len(whole["usage"]) + lost
    shown = cli("runs", "show", run["run_id"], "--db", "runs.db")
    assert "taken up again" in shown.stdout
    again = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db")
    assert (again.returncode, again.stdout) == (2, "")
    assert "has ended: it is completed" in again.stderr


def check_totals_known(found: dict[str, Any]) -> None:
    assert found["totals"]["cost"] is None
    for kind, count in found["totals"]["tokens"].items():
        assert count == sum(record["tokens"][kind] for record in found["usage"])


def test_a_killed_chat_is_completed(start: Start, cli: Cli) -> None:
    env = {"PAUSE_AT": "2", "QUESTION": "What are apples?"}
    process = start(str(HERE / "driver.py"), "chat", "pausing", "runs.db", env=env)
    wait_for(process, "waiting")
    kill(process)
    (run,) = listed(cli)
    assert (run["agent"], run["state"]) == ("main_thread", "interrupted")
    done = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db")
    assert done.returncode == 0
    assert "red fruits" in done.stdout
    assert "## Sources" in done.stdout  # also of what was found before the crash


def test_a_run_with_a_living_process_is_not_taken_away(start: Start, cli: Cli) -> None:
    process = research_until(start, 2)
    (run,) = listed(cli, "--state", "running")
    done = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is held by" in done.stderr.splitlines()[-1]
    assert process.poll() is None


def test_ctrl_c_stops_a_resumed_run(start: Start, cli: Cli, tmp_path: Path) -> None:
    process = start("shop.py", "runs.db", "clerk", "lookup\nsend")
    wait_for(process, "waiting")
    kill(process)
    (run,) = listed(cli)
    # What may have been sent is not sent again: the clerk is told, and the next line of its message makes it wait.
    process = start("shop.py", "runs.db", "clerk", "lookup\nmodel")
    wait_for(process, "waiting")
    kill(process)
    second = listed(cli)[0]["run_id"]
    command = ("-m", "concertino.cli", "runs", "resume", second, "--app", "shop:make_runtime", "--db", "runs.db")
    resumed = start(*command)
    wait_for(resumed, "waiting")
    resumed.send_signal(signal.SIGINT)
    _, err = resumed.communicate(timeout=30)
    assert resumed.returncode == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stopped; what was gathered is in runs.db")
    assert {one["run_id"]: one["state"] for one in listed(cli)} == {run["run_id"]: "interrupted", second: "cancelled"}
    done = cli("runs", "resume", run["run_id"], "--app", "shop:make_async", "--db", "runs.db")
    assert done.returncode == 0
    assert "OUTCOME_UNKNOWN" in done.stdout
    shown = json.loads(cli("runs", "show", run["run_id"], "--db", "runs.db", "--json").stdout)
    (call,) = shown["timeline"][1]["calls"]
    assert (call["name"], call["state"], call["begun_once"]) == ("send", "unknown", True)


def test_a_run_is_stopped_from_another_terminal(start: Start, cli: Cli, tmp_path: Path) -> None:
    process = research_until(start, 3)
    (run,) = listed(cli)
    done = cli("runs", "stop", run["run_id"], "--db", "runs.db", "--deadline", "20")
    assert done.returncode == 0, done.stderr
    assert "stopped: demo:quotes (model of supervisor/researcher-" in done.stdout
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stopped by somebody else")
    assert kept(tmp_path / "runs.db")["supervisor"][0] == "cancelled"
    again = cli("runs", "stop", run["run_id"], "--db", "runs.db")
    assert again.returncode == 2
    assert "has ended" in again.stderr


def test_what_a_dead_process_left_is_stopped_with_a_receipt(start: Start, cli: Cli) -> None:
    process = start("shop.py", "runs.db", "clerk", "lookup\nsend broken")
    wait_for(process, "waiting")
    kill(process)
    (run,) = listed(cli)
    done = cli("runs", "stop", run["run_id"], "--db", "runs.db", "--json")
    receipt = json.loads(done.stdout)["receipt"]
    assert [work["name"] for work in receipt["unknown"]] == ["send"]
    shown = cli("runs", "show", run["run_id"], "--db", "runs.db").stdout
    assert "unknown whether it took effect: send (tool of clerk, " in shown
    assert "unknown  send [once, begun]" in shown


def test_a_fork_goes_on_from_a_step(start: Start, cli: Cli) -> None:
    process = start("shop.py", "runs.db", "clerk", "lookup\nlookup\nbroken")
    process.communicate(timeout=30)
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
def test_an_app_that_is_none_is_refused_in_one_line(start: Start, cli: Cli, app: str, says: str) -> None:
    start("shop.py", "runs.db", "clerk", "supplier").communicate(timeout=30)
    (run,) = listed(cli)
    done = cli("runs", "resume", run["run_id"], "--app", app, "--db", "runs.db")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("concertino: --app")
    assert says in line


def test_an_agent_that_this_program_does_not_have(start: Start, cli: Cli) -> None:
    start("shop.py", "runs.db", "clerk", "supplier").communicate(timeout=30)
    (run,) = listed(cli)
    done = cli("runs", "resume", run["run_id"], "--db", "runs.db")
    assert done.returncode == 2
    assert "agent 'clerk'" in done.stderr
    assert "--app" in done.stderr


def test_a_run_of_before_is_listed_and_not_resumed(start: Start, cli: Cli, tmp_path: Path) -> None:
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
    assert "kept by an older concertino" in shown.stdout
    assert "Rot." in shown.stdout
    for command in (("resume", "run_old"), ("fork", "run_old", "--step", "1"), ("stop", "run_old")):
        done = cli("runs", *command, "--db", "runs.db", *(() if command[0] == "stop" else ("--corpus", "pages")))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1].startswith("concertino: ")
