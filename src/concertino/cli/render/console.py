"""The program's output: progress, notices and errors go to standard error, answers to standard output."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from .format import CONTROL, one_line, safe

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from ..signals import Signals

# rich is imported where it is used: `--help` must not load it.

_READABLE = 100
"""Maximum width of a rendered report: longer lines are hard to read."""
_UNLIMITED = 10_000
"""Width of a table in a pipe: programs that read it must find every id whole."""


class OutputError(Exception):
    """Standard output cannot be written to. Without a message its reader has gone, which is not an error."""


class Console:
    """Standard output and standard error of one command.

    Everything printed has visible escapes for control characters; with *raw*, answers in a pipe are printed unchanged.
    With *as_json*, standard output carries JSON objects alone. `interactive` is true if both streams are terminals
    that can redraw lines.
    """

    def __init__(self, *, as_json: bool, raw: bool = False) -> None:
        self.as_json = as_json
        self._raw = raw
        self.interactive = not as_json and _redraws(sys.stdout) and _redraws(sys.stderr)
        self._answered = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # an answer must survive a narrow encoding

    @property
    def width(self) -> int:
        """Columns of the terminal; unlimited in a pipe."""
        return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else _UNLIMITED

    def notice(self, text: str) -> None:
        """Print a line for people to standard error. A closed pipe is ignored: the run continues."""
        try:
            _write(sys.stderr, one_line(text) + "\n")
        except OSError:
            sys.stderr = None  # as Python itself does in a process without one

    def answer(self, markdown: str) -> None:
        """Print an answer: rendered on a terminal, as Markdown in a pipe. Raises `OutputError`."""
        if not self.interactive:
            text = markdown if self._raw and not is_terminal(sys.stdout) else safe(markdown)
            self._write_out(("\n" if self._answered else "") + text.rstrip() + "\n")
            self._answered = True
            return
        from rich.markdown import Markdown  # noqa: PLC0415 - takes longer to import than all of typer

        console = self._rich()
        rendered = Markdown(safe(markdown), hyperlinks=False)
        with console.capture() as capture:
            console.print("", rendered, "", sep="\n", width=min(console.width, _READABLE))
        self._write_out(capture.get())

    def json(self, value: dict[str, Any]) -> None:
        """Print *value* as a line of JSON. Raises `OutputError`."""
        narrow = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
        text = json.dumps(value, ensure_ascii=narrow)
        self._write_out(CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")

    def print(self, *blocks: RenderableType) -> None:
        """Print texts and tables, with styles on a terminal. Raises `OutputError`.

        A text is printed whole, because it may contain a command to copy; one with `overflow` is shortened.
        """
        from rich.text import Text  # noqa: PLC0415

        console = self._rich()
        with console.capture() as capture:  # rich itself would end the process when the reader of a pipe has gone
            for block in blocks:
                for line in [block] if isinstance(block, Text) else rendered_lines(block, console):
                    if safe(line.plain) != line.plain:
                        line.plain = safe(line.plain)
                    if line.overflow is not None:
                        line.truncate(console.width)
                    console.print(line, soft_wrap=True)
        self._write_out(capture.get())

    def lines(self, block: RenderableType) -> list[Text]:
        """Render *block* as lines."""
        return rendered_lines(block, self._rich())

    def _rich(self) -> RichConsole:
        return rich_console(sys.stdout) if self.interactive else rich_console(sys.stdout, plain_width=self.width)

    def _write_out(self, text: str) -> None:
        try:
            _write(sys.stdout, text)
        except BrokenPipeError as error:
            raise OutputError from error
        except OSError as error:
            raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def rich_console(stream: TextIO, plain_width: int | None = None) -> RichConsole:
    """Return a rich console on *stream*; with *plain_width*, a console without styles."""
    from rich.console import Console as RichConsole  # noqa: PLC0415

    if plain_width is not None:
        return RichConsole(file=stream, width=plain_width, color_system=None, force_terminal=False, highlight=False)
    return RichConsole(file=stream, highlight=False)


def rendered_lines(block: RenderableType, console: RichConsole, options: ConsoleOptions | None = None) -> list[Text]:
    """Render *block* as lines without the spaces with which rich fills the last cell of a table."""
    from rich.text import Text  # noqa: PLC0415

    rendered = console.render_lines(block, options, pad=False)
    lines = [Text.assemble(*((part.text, part.style or "") for part in line)) for line in rendered]
    for line in lines:
        line.rstrip()
    return lines


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = (), flexible: Collection[str] = ()
) -> Table:
    """Return a table of *rows* below *heads*; columns named in *right* are aligned right.

    Only *flexible* columns are shortened if the table is wider than the terminal: the others contain ids and figures.
    """
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        made.add_column(head, justify="right" if head in right else "left", no_wrap=head not in flexible)
    for row in rows:
        made.add_row(*(Text(one_line(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    return made


@contextmanager
def warnings_as_lines(write: Callable[[str], None]) -> Iterator[None]:
    """Write the library's warnings as lines without tracebacks."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            write(f"concertino: {record.getMessage()}" + (f" ({type(error).__name__}: {error})" if error else ""))

    logger = logging.getLogger("concertino")
    handler, propagated = Handler(logging.WARNING), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


def discard_output() -> None:
    """Redirect standard output to nowhere: the interpreter would complain about its unwritten buffer at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether *stream* is an open terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def read_line(prompt: str, console: Console, signals: Signals) -> str | None:
    """Return the next line of standard input without its end, or None at the end of input or after a signal.

    The read blocks the event loop. Only a terminal shows the prompt.
    """
    if sys.stdin is None:
        return None
    try:
        with signals.interrupt_read():
            if is_terminal(sys.stdin) and is_terminal(sys.stdout):
                with suppress(ImportError):
                    import readline  # noqa: F401, PLC0415 - its import gives input() a history and arrow keys
                return input(prompt)
            if is_terminal(sys.stdin):
                console.notice(prompt)
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
    except (EOFError, KeyboardInterrupt):
        console.notice("")
        return None


def read_all() -> str:
    """Return all of standard input."""
    return sys.stdin.read() if sys.stdin is not None else ""


def replace_invalid_input() -> None:
    """Read invalid bytes of standard input as replacement characters: they can be neither stored nor sent."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")


def replace_invalid(argument: str) -> str:
    """Return a command-line argument with its invalid bytes replaced, as `replace_invalid_input` does."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _redraws(stream: TextIO | None) -> bool:
    return is_terminal(stream) and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        stream.write(text)
        stream.flush()
