"""Asking: lines from the person, or from the pipe, at the other end of standard input."""

from __future__ import annotations

import sys
from contextlib import suppress

from .screen import Screen, is_terminal
from .stop import Stop


def read_line(prompt: str, screen: Screen, stop: Stop) -> str | None:
    """The next line, without its end; None at the end of input or when a signal came.

    It blocks the loop: nothing else goes on while the user is asked. The prompt is shown to people only.
    """
    if sys.stdin is None:
        return None
    try:
        with stop.interrupts():
            if is_terminal(sys.stdin) and is_terminal(sys.stdout):
                with suppress(ImportError):
                    import readline  # noqa: F401, PLC0415 - its import gives input() a history and arrow keys
                return input(prompt)
            if is_terminal(sys.stdin):
                screen.notice(prompt)
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
    except EOFError:
        screen.notice("")
        return None
    except KeyboardInterrupt:
        screen.notice("")
        return None


def read_all() -> str:
    """All of standard input."""
    return sys.stdin.read() if sys.stdin is not None else ""


def mend_input() -> None:
    """Have bytes that are no text read as question marks: they can be neither stored nor sent."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")


def mended(argument: str) -> str:
    """An argument of the command line, with the same care."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
