"""The screen: progress, notices and errors go to standard error, answers to standard output."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from ...events import RunEvent
from ..signals import Stop
from .format import one_line, safe
from .log import Lines

if TYPE_CHECKING:
    from rich.console import Console

_OBEYED = re.compile(r"[\x7f-\x9f]")
"""What JSON lets stand, and some terminals obey."""
_READABLE = 100
"""Columns of a rendered report, at most: longer lines are hard to read."""


Line = tuple[str, str]
"""A line for people, and its style on a terminal ("": none)."""


class OutputError(Exception):
    """Standard output takes nothing any more. Without a message nobody reads it, and nobody need be told."""


class View(Protocol):
    """Shows one run while it lasts."""

    async def __aenter__(self) -> View: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def see(self, event: RunEvent) -> None:
        """Take *event* in."""
        ...


class Screen:
    """Where a run is shown and its answer printed; *as_json*: standard output is for objects alone.

    On a terminal, that is if both outputs are one that can redraw, the run is a live tree and the answer is rendered.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._answered = False
        self.on_terminal = not as_json and _redraws(sys.stdout) and _redraws(sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # a narrow encoding must not cost the answer

    def notice(self, text: str) -> None:
        """A line for people. That nobody reads it any more is no reason to stop."""
        try:
            _write(sys.stderr, one_line(text) + "\n")
        except OSError:
            sys.stderr = None  # as Python itself has it where there is none

    def answer(self, markdown: str) -> None:
        """The report or the answer: rendered on a terminal, else as it is, a line apart. Raises `OutputError`."""
        if not self.on_terminal:
            text = safe(markdown) if is_terminal(sys.stdout) else markdown
            self._print(("\n" if self._answered else "") + text.rstrip() + "\n")
            self._answered = True
            return
        from rich.markdown import Markdown  # noqa: PLC0415 - only a terminal needs it

        console = _console(sys.stdout)
        console.print("", Markdown(safe(markdown)), "", sep="\n", width=min(console.width, _READABLE))

    def object(self, value: dict[str, Any], *, indent: int | None = None) -> None:
        """*value* as JSON. Raises `OutputError`."""
        narrow = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
        text = json.dumps(value, ensure_ascii=narrow, indent=indent)
        self._print(_OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")

    def lines(self, lines: Iterable[Line]) -> None:
        """Lines for people, without what a terminal would obey; on a terminal in their styles. Raises `OutputError`."""
        if not self.on_terminal:
            self._print("".join(safe(text).rstrip() + "\n" for text, _ in lines))
            return
        from rich.text import Text  # noqa: PLC0415 - only a terminal needs it

        console = _console(sys.stdout)
        for text, style in lines:
            console.print(Text(safe(text).rstrip(), style), soft_wrap=True)

    @property
    def columns(self) -> int:
        """How wide a line may be that should not be broken; a pipe takes what most terminals do, twice."""
        return shutil.get_terminal_size().columns if self.on_terminal else 160

    def view(self, delegates: frozenset[str] = frozenset(), *, streams_answer: bool = False) -> View:
        """A view for one run; see `Lines` for *delegates*. With *streams_answer* the answer is seen as it comes."""
        if not self.on_terminal:
            return Lines(self.notice, delegates)
        from .live import LiveTree  # noqa: PLC0415 - only a terminal needs it

        return LiveTree(_console(sys.stderr), answer=streams_answer)

    def _print(self, text: str) -> None:
        try:
            _write(sys.stdout, text)
        except BrokenPipeError as error:
            raise OutputError from error
        except OSError as error:
            raise OutputError(f"standard output cannot be written to: {error.strerror}") from error


def log_in_lines(write: Callable[[str], None]) -> None:
    """Have the library's warnings written as lines, without tracebacks."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            write(f"concertino: {record.getMessage()}" + (f" ({type(error).__name__}: {error})" if error else ""))

    logger = logging.getLogger("concertino")
    logger.addHandler(Handler(logging.WARNING))
    logger.propagate = False


def abandon_output() -> None:
    """Have what is left in the buffers go nowhere, so that the interpreter does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at *stream*."""
    return stream is not None and not stream.closed and stream.isatty()


def _redraws(stream: TextIO | None) -> bool:
    return is_terminal(stream) and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


def _console(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it

    return Console(file=stream, highlight=False)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        stream.write(text)
        stream.flush()


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
