"""Fixtures: the program called in this process, with its own home folder, a small corpus and no key."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest

import concertino
from concertino.cli import main
from concertino.providers.base import Model
from tests.cli import shop as shop_program

SHOP = Path(__file__).with_name("shop.py")
APP = ("--app", "tests.cli.shop:make_runtime")

PAGES = {
    "apples.md": "# Apples\n\nApples are red fruits. An apple tree bears fruit in autumn.\n",
    "pears.md": "# Pears\n\nPears are green fruits. A pear tree needs more warmth than an apple tree.\n",
}


@dataclass(frozen=True, slots=True)
class Completed:
    """The exit status and the output of a command, as `subprocess.run` returns them."""

    returncode: int
    stdout: str
    stderr: str


Cli = Callable[..., Completed]
Shop = Callable[[str, str], str]


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def _stream(content: bytes, encoding: str, terminal: bool) -> TextIO:
    return (_Terminal if terminal else io.TextIOWrapper)(io.BytesIO(content), encoding, write_through=True)


@contextmanager
def streams(given: str, encoding: str, terminal: bool) -> Any:
    """Replace the standard streams; the yielded function returns what was written."""
    before = sys.stdin, sys.stdout, sys.stderr
    replaced = [_stream(given.encode("utf-8", "surrogateescape"), "utf-8", terminal)]
    replaced += [_stream(b"", encoding, terminal) for _ in range(2)]
    sys.stdin, sys.stdout, sys.stderr = replaced

    def written() -> tuple[str, str]:
        out, err = (stream.buffer.getvalue().decode(encoding) for stream in replaced[1:])  # type: ignore[attr-defined]
        return out, err

    try:
        yield written
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def call_main(*arguments: str, given: str = "", encoding: str = "utf-8", terminal: bool = False) -> Completed:
    """Call the program's entry point in this process."""
    with pytest.MonkeyPatch.context() as patch, streams(given, encoding, terminal) as written:
        patch.setattr(sys, "argv", ["concertino", *arguments])
        patch.setattr(sys, "path", [*sys.path])  # --app adds the working directory
        status = main()
    return Completed(status, *written())


def stored_answers(database: Path) -> dict[str, tuple[str, str]]:
    """Return the state and the answer of each agent in a database."""
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
    """The environment of a process: its own home folder, and nothing of this machine that it does not need."""
    home = tmp_path / "home"
    home.mkdir()
    needed = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    return needed | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(concertino.__file__).parents[1]),  # the code under test, not an installed one
        "PYTHONWARNINGS": "error",
    }


@pytest.fixture
def database(environment: dict[str, str]) -> Path:
    """The default database."""
    return Path(environment["XDG_DATA_HOME"]) / "concertino" / "concertino.db"


@pytest.fixture
def cli(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Call `concertino` with these arguments in the test's folder; *env* adds variables."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Completed:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            return call_main(*arguments, **options)

    return run


@pytest.fixture
def use_model(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], None]:
    """Let every model of the program be the given one."""
    return lambda model: monkeypatch.setattr("concertino.wiring.open_model", lambda spec: model)


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Shop:
    """Run an agent of the shop until it ends or waits, and return the run's id."""
    shutil.copy(SHOP, tmp_path)  # for the tests of --app, which imports it from the working directory
    return lambda agent, message: asyncio.run(shop_program.start("runs.db", agent, message))


@pytest.fixture
def runs(cli: Cli) -> Cli:
    """Call `concertino runs ... --db runs.db`."""

    def run(*arguments: str, **options: Any) -> Completed:
        done = cli("runs", *arguments, "--db", "runs.db", **options)
        assert "\x1b" not in done.stderr
        assert "\x1b" not in done.stdout or arguments[0] in ("approve", "deny", "resolve", "resume")  # answers, piped
        assert "Traceback" not in done.stderr
        return done

    return run


def run_object(runs: Cli, run: str) -> dict[str, Any]:
    """Return the object of `runs show --json`."""
    done = runs("show", run, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_refused(done: Completed, *parts: str, status: int = 2) -> None:
    """Check for one line on standard error that contains *parts*."""
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("concertino: ")
    for part in parts:
        assert part in line
