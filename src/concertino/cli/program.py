"""The frame around a command: its text, its context and its exit status."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConcertinoError, ConfigurationError
from .command_context import CommandContext, NewRunContext, Options, open_existing, open_new_run
from .render.console import Console, OutputError, discard_output, read_all, replace_invalid, warnings_as_lines
from .signals import Signals

NewRunCommand = Callable[[str | None, NewRunContext], Coroutine[Any, Any, int]]
"""Starts runs for a text and returns the exit status."""

StoredRunCommand = Callable[[CommandContext], Coroutine[Any, Any, int]]
"""Works on stored runs and returns the exit status."""

_BROKEN_PIPE = 141
"""The shell's status of a program ended by SIGPIPE."""


def perform_new_run(command: NewRunCommand, arguments: Sequence[str], options: Options, *, needs_text: bool) -> int:
    """Execute a command that starts runs, and return its exit status."""
    console = Console(as_json=options.as_json)

    def perform() -> int:
        text, corpus = split_arguments(arguments, options.corpus)
        if needs_text and text is None:
            raise ConfigurationError('the question is missing: concertino research "How does ... work?"')
        return asyncio.run(_new_run(command, text, dataclasses.replace(options, corpus=corpus), console))

    return _status(perform, console)


def perform_on_stored_runs(command: StoredRunCommand, options: Options, *, read_only: bool = False) -> int:
    """Execute a command on stored runs, and return its exit status. A *read_only* one needs no write access."""
    console = Console(as_json=options.as_json)
    return _status(lambda: asyncio.run(_stored_runs(command, options, console, read_only=read_only)), console)


def _status(perform: Callable[[], int], console: Console) -> int:
    """Return the exit status of *perform*, also if it raises."""
    with warnings_as_lines(console.notice):
        try:
            return perform()
        except KeyboardInterrupt:
            return 130
        except OutputError as error:
            discard_output()
            if not str(error):
                return _BROKEN_PIPE
            console.notice(f"concertino: {error}")
            return 1
        except ConcertinoError as error:  # an error of a run is part of its result: this one is about the set-up
            console.notice(f"concertino: {error}")
            return 2


async def _stored_runs(command: StoredRunCommand, options: Options, console: Console, *, read_only: bool) -> int:
    signals = Signals()
    try:
        with signals.cancel_task():
            async with open_existing(options, console, signals, read_only=read_only) as context:
                return await command(context)
    except asyncio.CancelledError:
        if not signals.absorb_cancellation():
            raise
        console.notice("stopped")
        return signals.exit_status


async def _new_run(command: NewRunCommand, text: str | None, options: Options, console: Console) -> int:
    signals = Signals()
    try:
        async with open_new_run(options, console, signals) as context:
            return await command(text, context)
    except asyncio.CancelledError:
        if not signals.absorb_cancellation():
            raise
        console.notice("stopped before the run had started")
        return signals.exit_status


def split_arguments(arguments: Sequence[str], corpus: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the text and the corpus paths; of several arguments next to `--corpus`, existing paths belong to it.

    The text is None if there are no arguments, and all of standard input for the argument `-`. Raises
    `ConfigurationError` for more than one text and for an empty one.
    """
    texts, paths = list(arguments), list(corpus)
    if len(texts) > 1 and corpus:
        others = [text for text in texts if not _exists(text)] or texts[:1]
        paths += [text for text in texts if text not in others]
        texts = others
    if len(texts) > 1:
        hint = ", and check that each path after --corpus exists" if corpus else ""
        shown = ", ".join(repr(replace_invalid(text)) for text in texts[:3])
        raise ConfigurationError(f"expected one text, got {len(texts)} ({shown}): put it in quotes{hint}")
    if not texts:
        return None, tuple(paths)
    text = replace_invalid(read_all() if texts[0] == "-" else texts[0])
    if not text.strip():
        raise ConfigurationError('the question is empty: put it in quotes, such as "How does ... work?"')
    return text, tuple(paths)


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long for a path, or the home of an unknown user
        return False
