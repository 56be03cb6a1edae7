"""The program as a process: SIGKILL, the second signal, closed outputs, a real terminal, and what an import loads.

Every other test calls it in process. A test here waits for a line of the process, never for time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, stored_answers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to processes")
HERE = Path(__file__).parent
DRIVER = str(HERE / "driver.py")
QUESTION = "What are apples, and what do pears need?"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(environment: dict[str, str], corpus: Path, tmp_path: Path) -> Iterator[Start]:
    """Start Python in the test's folder; every process is killed at the end."""
    shutil.copy(HERE / "shop.py", tmp_path)
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment | (env or {}), cwd=tmp_path, encoding="utf-8", **pipes
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], wanted: str) -> None:
    """Read standard error up to the line *wanted*."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(wanted):
            return
    raise AssertionError(f"the process ended before it wrote {wanted!r}")


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def listed(cli: Cli, *options: str) -> list[dict[str, Any]]:
    done = cli("runs", "list", "--json", "--db", "runs.db", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def start_research(start: Start, pause_at: int) -> subprocess.Popen[str]:
    """Start a research that waits in its request *pause_at*."""
    arguments = (DRIVER, "pausing", "research", QUESTION, "--corpus", "pages", "--db", "runs.db")
    process = start(*arguments, env={"PAUSE_AT": str(pause_at)})
    wait_for(process, "waiting")
    return process


def test_a_killed_research_is_completed_by_another_process(start: Start, cli: Cli, tmp_path: Path) -> None:
    whole = json.loads(cli("research", QUESTION, "--corpus", "pages", "--json").stdout)
    kill(start_research(start, 5))
    (run,) = listed(cli, "--state", "interrupted")
    assert listed(cli, "--state", "running") == []
    shown = cli("runs", "show", run["run_id"], "--db", "runs.db")
    assert f"concertino runs resume {run['run_id']}" in shown.stdout
    done = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["run_id"] == run["run_id"]
    assert (found["status"], found["question"]) == ("completed", QUESTION)
    assert (found["report"], found["sources"]) == (whole["report"], whole["sources"])
    assert {state for state, _ in stored_answers(tmp_path / "runs.db").values()} == {"completed"}
    # The usage of an attempt that was open is unknown: one attempt, or one for each researcher.
    lost = [record["source"] for record in found["usage"]].count("unknown")
    assert 1 <= lost <= 2
    assert len(found["usage"]) == len(whole["usage"]) + lost
    assert found["totals"]["cost"] is None
    shown = cli("runs", "show", run["run_id"], "--db", "runs.db")
    assert "resumed" in shown.stdout
    again = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db")
    assert (again.returncode, again.stdout) == (2, "")
    assert "has ended: completed" in again.stderr


def test_an_active_run_is_not_taken_over_and_can_be_stopped(start: Start, cli: Cli, tmp_path: Path) -> None:
    process = start_research(start, 3)
    (run,) = listed(cli, "--state", "running")
    done = cli("runs", "resume", run["run_id"], "--corpus", "pages", "--db", "runs.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert process.poll() is None
    done = cli("runs", "stop", run["run_id"], "--db", "runs.db", "--deadline", "20")
    assert done.returncode == 0, done.stderr
    assert "(model of supervisor/researcher-" in done.stdout
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stopped by another process")
    assert stored_answers(tmp_path / "runs.db")["supervisor"][0] == "cancelled"
    again = cli("runs", "stop", run["run_id"], "--db", "runs.db")
    assert again.returncode == 2
    assert "has ended" in again.stderr


def test_a_once_tool_of_a_killed_process_is_not_repeated(start: Start, cli: Cli) -> None:
    process = start("shop.py", "runs.db", "clerk", "lookup\nsend broken")
    wait_for(process, "waiting")
    kill(process)
    (first,) = listed(cli)
    done = cli("runs", "resume", first["run_id"], "--app", "shop:make_async", "--db", "runs.db")
    assert done.returncode == 0
    assert "OUTCOME_UNKNOWN" in done.stdout
    shown = json.loads(cli("runs", "show", first["run_id"], "--db", "runs.db", "--json").stdout)
    call = shown["timeline"][1]["calls"][0]
    assert (call["name"], call["state"]) == ("send", "unknown")


def test_the_receipt_of_a_stop_names_what_a_killed_process_left(start: Start, cli: Cli) -> None:
    process = start("shop.py", "runs.db", "clerk", "lookup\nsend broken")
    wait_for(process, "waiting")
    kill(process)
    (run,) = listed(cli)
    done = cli("runs", "stop", run["run_id"], "--db", "runs.db", "--json")
    receipt = json.loads(done.stdout)["receipt"]
    assert [operation["name"] for operation in receipt["unknown"]] == ["send"]
    shown = cli("runs", "show", run["run_id"], "--db", "runs.db").stdout
    assert "unknown whether it took effect: send (tool of clerk, " in shown


def test_the_third_signal_ends_the_process(start: Start) -> None:
    process = start(DRIVER, "stubborn", "research", "What?", "--corpus", "pages", "--db", "runs.db")
    wait_for(process, "waiting")
    process.send_signal(signal.SIGINT)
    wait_for(process, "refusing")
    process.send_signal(signal.SIGINT)
    wait_for(process, "cancelling the run")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130


def test_ctrl_c_while_the_program_loads(start: Start, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise KeyboardInterrupt")
    paths = os.pathsep.join((str(tmp_path), environment["PYTHONPATH"]))
    process = start("-m", "concertino.cli", env={"PYTHONPATH": paths})
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130


def test_a_reader_that_has_gone_is_not_an_error(start: Start) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages", stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stored in")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_output_is_an_error(start: Start) -> None:
    with Path("/dev/full").open("w") as full:
        process = start("-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[-2].startswith("stored in")
    assert err.splitlines()[-1].startswith("concertino: cannot write to standard output")


def test_a_missing_extra_is_named(start: Start) -> None:
    code = """
        import sys
        for name in ("typer", "rich"):
            sys.modules[name] = None
            from concertino.cli import main
            assert main() == 2
            del sys.modules[name]
    """
    process = start("-c", textwrap.dedent(code), "research", "q")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["concertino", "concertino"]
    for line, name in zip(lines, ("typer", "rich"), strict=True):
        assert name in line
        assert line.endswith("pip install 'concertino[cli]'")


def test_help_loads_only_what_it_needs(start: Start) -> None:
    code = """
        import sys
        import concertino
        assert not {"concertino.cli", "typer", "rich"} & sys.modules.keys()
        from concertino.cli import main
        for arguments in (["--help"], ["runs", "list", "--help"]):
            sys.argv = ["concertino", *arguments]
            assert main() == 0
        heavy = {"rich.console", "tiktoken", "sqlite3", "httpx2", "openai"} & sys.modules.keys()
        sys.exit(str(heavy) if heavy else 0)
    """
    process = start("-c", textwrap.dedent(code))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "research" in out
    assert "--conversation" in out


def test_a_run_is_drawn_on_a_real_terminal(start: Start) -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    arguments = ("-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages")
    process = start(*arguments, env={"TERM": "xterm-256color"}, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    raw = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux reports the closed terminal as an error
            break
        if not piece:
            break
        raw += piece
    os.close(master)
    assert process.wait(timeout=60) == 0
    assert raw.rindex(b"\x1b[?25h") > raw.rindex(b"\x1b[?25l")  # the cursor is hidden, and shown again at the end
    assert "✓ supervisor".encode() in raw.replace(b"\x1b[0m", b"").replace(b"\x1b[32m", b"").replace(b"\x1b[1m", b"")
