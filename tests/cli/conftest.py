"""For the tests of the program: a real process in a home of its own, with a small corpus and no key."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import concertino

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
SHOP = Path(__file__).with_name("shop.py")
APP = ("--app", "shop:make_runtime")
Shop = Callable[..., str]

PAGES = {
    "apples.md": "# Apples\n\nApples are red fruits. An apple tree bears fruit in autumn.\n",
    "pears.md": "# Pears\n\nPears are green fruits. A pear tree needs more warmth than an apple tree.\n",
}


def kept(database: Path) -> dict[str, tuple[str, str]]:
    """What a file has of each agent: its state and its answer."""
    connection = sqlite3.connect(database)
    rows = connection.execute(
        "SELECT agent_path, state, answer FROM runs AS r JOIN heads AS h ON h.run = r.number "
        "LEFT JOIN ends AS e ON e.number = h.ending"
    ).fetchall()
    connection.close()
    return {path: (state, answer) for path, state, answer in rows}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with two pages."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of this machine but what a process needs to start."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    return kept | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(concertino.__file__).parents[1]),  # the code under test, whatever is installed
        "PYTHONWARNINGS": "error",
    }


@pytest.fixture
def database(environment: dict[str, str]) -> Path:
    """Where runs are kept if nothing else is said."""
    return Path(environment["XDG_DATA_HOME"]) / "concertino" / "concertino.db"


@pytest.fixture
def cli(environment: dict[str, str], tmp_path: Path) -> Cli:
    """Runs the program with these arguments, in the folder of the test."""

    def run(*arguments: str, given: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "concertino.cli", *arguments],
            input=given,
            env=environment | (env or {}),
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=50,
            check=False,
        )

    return run


@pytest.fixture
def shop(environment: dict[str, str], tmp_path: Path) -> Shop:
    """Runs an agent of the shop to its end, or until it waits; the run's id."""
    shutil.copy(SHOP, tmp_path)

    def begin(agent: str, message: str) -> str:
        done = subprocess.run(
            [sys.executable, "shop.py", "runs.db", agent, message],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=50,
            check=True,
        )
        return done.stdout.strip()

    return begin


@pytest.fixture
def runs(cli: Cli) -> Cli:
    """`concertino runs ... --db runs.db`."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        done = cli("runs", *arguments, "--db", "runs.db", **options)
        assert "\x1b" not in done.stderr
        assert "\x1b" not in done.stdout or arguments[0] in ("approve", "deny", "resolve", "resume")  # answers, piped
        assert "Traceback" not in done.stderr
        return done

    return run


def shown(runs: Cli, run: str) -> dict[str, Any]:
    done = runs("show", run, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(done: subprocess.CompletedProcess[str], *says: str, status: int = 2) -> None:
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("concertino: ")
    for part in says:
        assert part in line
