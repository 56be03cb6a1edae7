"""On a terminal: the live tree, the rendered report, and questions back. A pseudo-terminal stands for the real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

DRIVER = Path(__file__).with_name("driver.py")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """A process whose three streams are one pseudo-terminal of 80 by 24."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x18\x00\x50\x00\x00\x00\x00\x00")
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"TERM": "xterm-256color"} | environment,
            cwd=folder,
        )
        os.close(slave)
        self.raw = b""

    def read(self, until: str = "") -> str:
        """What has come, without escapes, until *until* is in it; without that, until the process has closed it."""
        deadline = time.monotonic() + 40
        while not until or until not in self.text:
            assert time.monotonic() < deadline, f"no {until!r} in {self.text!r}"
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # Linux says so when nobody has the other end open
                piece = b""
            if not piece:
                break
            self.raw += piece
        return self.text

    @property
    def text(self) -> str:
        return _ESCAPE.sub("", self.raw.decode("utf-8", "replace"))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(environment: dict[str, str], corpus: Path, tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts processes on terminals of their own."""
    opened: list[Terminal] = []

    def start(*command: str, env: dict[str, str] | None = None) -> Terminal:
        opened.append(Terminal(list(command), environment | (env or {}), tmp_path))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_the_run_is_a_tree_and_the_report_is_rendered(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages")
    text = shown.read()
    assert shown.process.wait() == 0
    assert b"\x1b[?25l" in shown.raw  # the cursor is hidden while the tree lives,
    assert shown.raw.rindex(b"\x1b[?25h") > shown.raw.rindex(b"\x1b[?25l")  # and shown again
    assert "✓ supervisor" in text
    assert "✓ researcher-1" in text
    assert "total · " in text
    assert "## " not in text
    assert "red fruits" in text
    assert "stored in" in text


def test_a_dumb_terminal_gets_plain_lines(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages", env={"TERM": "dumb"})
    text = shown.read()
    assert shown.process.wait() == 0
    assert b"\x1b" not in shown.raw
    assert "supervisor: started" in text
    assert "# What are apples" in text


def test_without_colour_the_tree_has_none(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("-m", "concertino.cli", "research", "What are apples?", "--corpus", "pages", env={"NO_COLOR": "1"})
    shown.read()
    assert shown.process.wait() == 0
    assert not re.search(rb"\x1b\[(?:\d+;)*[34]\d(?:;\d+)*m", shown.raw)


def test_a_conversation_with_a_prompt(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("-m", "concertino.cli", "chat", "--corpus", "pages")
    shown.read("you> ")
    shown.type("What are apples?\r")
    assert "red fruits" in shown.read("stored in")
    shown.type("/quit\r")
    shown.read()
    assert shown.process.wait() == 0


def test_the_model_may_ask_back_once(terminal: Callable[..., Terminal]) -> None:
    shown = terminal(str(DRIVER), "research", "asking", "runs.db")
    asked = shown.read("your answer> ")
    assert "1. Which fruit?" in asked
    assert "2. How long?" in asked
    shown.type("pears, briefly\r")
    assert "You want pears, briefly." in shown.read()
    assert shown.process.wait() == 0


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_what_was_stored_cannot_drive_the_terminal(
    terminal: Callable[..., Terminal], tmp_path: Path, term: str
) -> None:
    (tmp_path / "shop.py").write_text(DRIVER.with_name("shop.py").read_text())
    started = terminal("shop.py", "runs.db", "clerk", "refund \x1b]0;owned\x07\nbroken", env={"TERM": term})
    run = started.read().strip()
    command = ("-m", "concertino.cli", "runs")
    for arguments in (
        ("list",),
        ("show", run),
        ("approve", f"{run}:1.0", "--by", "ann", "--resume", "--app", "shop:make_runtime"),
        ("show", run),
        ("export", run),
    ):
        shown = terminal(*command, *arguments, "--db", "runs.db", env={"TERM": term})
        shown.read()
        assert shown.process.wait() == 0
        assert b"\x1b]" not in shown.raw
        assert b"\x07" not in shown.raw
        assert b"\x1b[31mcup" not in shown.raw  # what the tool had said
        if term == "dumb":
            assert b"\x1b" not in shown.raw


def test_erasing_asks(terminal: Callable[..., Terminal]) -> None:
    terminal("-m", "concertino.cli", "chat", "What are apples?", "--corpus", "pages", "--db", "runs.db").read()
    shown = terminal("-m", "concertino.cli", "runs", "erase", "--user", "nobody", "--db", "runs.db")
    shown.read("type yes> ")
    shown.type("yes\r")
    assert "erased of user 'nobody': 0 runs and 0 memories" in shown.read()
    assert shown.process.wait() == 0
