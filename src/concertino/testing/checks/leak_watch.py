"""Everything outside a run that may have its content: the store's files, events, logs and the output."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...orchestrator.journal.data_policy import DataPolicy, KeepFor
from .scenario import arguments_mark


class LeakWatch:
    """Collects what leaves a run."""

    def __init__(self) -> None:
        self.events: list[str] = []
        """The events that observers have seen."""
        self._log, self._printed, self._written = _Log(), io.StringIO(), b""

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Collect what is logged and printed, also by other means than `sys.stdout`."""
        root, level = logging.getLogger(), logging.getLogger().level
        root.addHandler(self._log)
        root.setLevel(logging.DEBUG)
        printed, redirect = self._printed, (contextlib.redirect_stdout, contextlib.redirect_stderr)
        try:
            with tempfile.TemporaryFile() as written, _descriptors(written.fileno()):
                with redirect[0](printed), redirect[1](printed):
                    yield
                written.seek(0)
                self._written = written.read()
        finally:
            root.removeHandler(self._log)
            root.setLevel(level)

    def problems(self, policy: DataPolicy, tools: Sequence[str], user: str, folder: Path) -> Iterator[str]:
        """Yield each sink that has content which *policy* excludes. The store's files are in *folder*."""
        sinks = {
            "the store": b"".join(path.read_bytes() for path in sorted(folder.iterdir())),
            "an event": "\n".join(self.events).encode(errors="replace"),
            "the log": self._log.text.encode(errors="replace"),
            "the output": self._printed.getvalue().encode(errors="replace") + self._written,
        }
        sinks = {sink: content.lower() for sink, content in sinks.items()}
        for mark, what in _excluded(policy, tools, user):
            for sink, content in sinks.items():
                if mark.lower().encode() in content:
                    yield f"{sink} has {what}, which the data policy excludes"


@contextlib.contextmanager
def _descriptors(target: int) -> Iterator[None]:
    """Let the standard output and the standard error of the process, and of those it starts, go to *target*."""
    with contextlib.ExitStack() as stack:
        for number in (1, 2):
            with contextlib.suppress(OSError, AttributeError, ValueError):  # the process has none
                (sys.stdout if number == 1 else sys.stderr).flush()
                kept = os.dup(number)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, number)
                os.dup2(target, number)
        yield


class _Log(logging.Handler):
    """The text of everything that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record) + "\n"


def _excluded(policy: DataPolicy, tools: Sequence[str], user: str) -> Iterator[tuple[str, str]]:
    """Yield the marks of content that *policy* does not keep, each with its description."""

    def goes(how: Any) -> bool:
        return how != "keep" and not isinstance(how, KeepFor)

    if goes(policy.text):
        yield f"words-{user}", "text of the user"
        yield f"said-{user}", "text of the model"
    for name in tools:
        if goes(policy.tool(name).arguments):
            yield arguments_mark(user, name), f"arguments of {name}"
        if goes(policy.tool(name).results):
            yield results_mark(user, name), f"results of {name}"


def results_mark(user: str, tool: str) -> str:
    """Return the text that marks the results of *tool*."""
    return f"results-{user}-{tool}."


def marked_result(user: str, tool: str, result: str) -> str:
    """Return a tool's *result* with its mark, and without that of its arguments, which it may repeat."""
    return f"{result.replace(arguments_mark(user, tool), 'the argument')} {results_mark(user, tool)}"
