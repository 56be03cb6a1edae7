"""`concertino new agent`: the files that it writes, and their test as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Cli, assert_refused


@pytest.fixture(autouse=True)
def folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder in which the command works."""
    made = tmp_path / "empty"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.mark.slow
def test_the_written_agent_passes_its_test_in_an_empty_folder(cli: Cli, folder: Path) -> None:
    done = cli("new", "agent", "order_desk")
    assert (done.returncode, done.stdout) == (0, "order_desk.py\ntest_order_desk.py\n")
    assert sorted(path.name for path in folder.iterdir()) == ["order_desk.py", "test_order_desk.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    tested = subprocess.run(command, cwd=folder, env=os.environ.copy(), capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout


@pytest.mark.parametrize("name", ["My-Agent", "class", "1st", "a/b", "", "json", "concertino"])
def test_invalid_names_are_refused(cli: Cli, name: str) -> None:
    assert_refused(cli("new", "agent", name), f"invalid agent name {name!r}")


def test_existing_files_are_kept(cli: Cli, folder: Path) -> None:
    (folder / "test_clerk.py").write_text("mine")
    assert_refused(cli("new", "agent", "clerk"), "test_clerk.py exists already")
    assert (folder / "test_clerk.py").read_text() == "mine"
    assert not (folder / "clerk.py").exists()
