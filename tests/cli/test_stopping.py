"""Ctrl-C, SIGTERM and SIGHUP, in a process whose model waits for ever: the tests wait for its line, never for time."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import kept
from tests.cli.test_research_command import check_object

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to the process")
DRIVER = Path(__file__).with_name("driver.py")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(environment: dict[str, str], corpus: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the driver; nothing of it is left running."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(DRIVER), *arguments],
            env=environment,
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


def wait_for(process: subprocess.Popen[str], *wanted: str) -> None:
    """Read standard error until each of *wanted* has begun a line."""
    assert process.stderr is not None
    left = set(wanted)
    while left:
        line = process.stderr.readline()
        assert line, f"it ended before it said {left}"
        left = {start for start in left if not line.startswith(start)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_cleanly_with_what_was_gathered(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "runs.db"
    process = start("research", "waiting", str(file))
    wait_for(process, "waiting", "supervisor/researcher-1: completed")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith(f"stopped; what was gathered is in {file} (run run_")
    # The finished researcher's answer is printed, and its citation resolves; the one that nobody found is gone.
    assert "## about apples" in out
    assert "Apples are red [s" in out
    assert "## Sources" in out
    assert "s0000000000" not in out
    connection = sqlite3.connect(file)
    usage = connection.execute("SELECT count(*) FROM usage").fetchone()[0]
    connection.close()
    runs = kept(file)
    assert {path: state for path, (state, _) in runs.items()} == {
        "supervisor": "cancelled",
        "supervisor/researcher-1": "completed",
        "supervisor/researcher-2": "cancelled",
    }
    assert runs["supervisor/researcher-1"][1].startswith("Apples are red")
    assert usage >= 3


def test_stopped_json_is_still_one_object(start: Start, tmp_path: Path) -> None:
    process = start("research", "waiting", str(tmp_path / "runs.db"), "--json")
    wait_for(process, "waiting", "supervisor/researcher-1: completed")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    found = json.loads(out)
    check_object(found)
    assert found["status"] == "cancelled"
    assert found["error"]
    assert len(found["sources"]) == 1


def test_a_chat_keeps_what_was_said(start: Start, tmp_path: Path) -> None:
    process = start("chat", "waiting", str(tmp_path / "runs.db"))
    wait_for(process, "waiting")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out.strip() == "So far so good."


def test_the_second_signal_ends_at_once(start: Start, tmp_path: Path) -> None:
    process = start("research", "stubborn", str(tmp_path / "runs.db"))
    wait_for(process, "waiting")
    process.send_signal(signal.SIGINT)
    wait_for(process, "refusing")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130


def test_a_hangup_that_was_switched_off_is_not_heard(start: Start, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does; the process inherits it
    try:
        process = start("chat", "waiting", str(tmp_path / "runs.db"))
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(process, "waiting")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_ctrl_c_while_the_program_is_still_loading(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-m", "concertino.cli"],
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
