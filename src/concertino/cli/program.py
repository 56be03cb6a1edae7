"""The frame around a command: its text, its context and its exit status."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from ..errors import ConcertinoError, ConfigurationError
from .command_context import CommandContext, open_existing, open_new_run, open_store_only
from .fleet_file import with_fleet_file
from .options import ContextCommand, Options
from .render.console import Console, OutputError, discard_output, read_all, replace_invalid, warnings_as_lines
from .signals import Signals

Open = Callable[[Options, Console, Signals], AbstractAsyncContextManager[CommandContext]]
"""Opens the context of a command."""

_BROKEN_PIPE = 141
"""The shell's status of a program ended by SIGPIPE."""


def start_runs(
    command: ContextCommand,
    arguments: Sequence[str] | None,
    options: Options,
    *,
    needs_text: bool,
    prepared: bool | None = True,
) -> int:
    """Execute a command that starts runs for a text, and return its exit status.

    *prepared* opens a model and the sources to search; without it, the command opens what it needs. None: unless
    `--app` names a runtime.
    """

    def perform(console: Console) -> int:
        configured = with_fleet_file(options)
        text, corpus = split_arguments(arguments or (), configured.corpus or ())
        if needs_text and text is None:
            raise ConfigurationError('the question is missing: concertino research "How does ... work?"')
        given = dataclasses.replace(configured, corpus=corpus)
        opens = open_new_run if (given.app is None if prepared is None else prepared) else open_store_only
        return asyncio.run(_perform(partial(command, text), opens, given, console))

    return exit_status(perform, Console(as_json=options.as_json, raw=options.raw))


def manage_runs(command: ContextCommand, options: Options, *, read_only: bool = False) -> int:
    """Execute a command on stored runs, and return its exit status. A *read_only* one needs no write access."""
    opens = partial(open_existing, read_only=read_only)
    return exit_status(
        lambda console: asyncio.run(_perform(command, opens, options, console)),
        Console(as_json=options.as_json, raw=options.raw),
    )


def exit_status(perform: Callable[[Console], int], console: Console) -> int:
    """Return the exit status of *perform*, also if it raises."""
    with warnings_as_lines(console.notice):
        try:
            return perform(console)
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


async def _perform(command: ContextCommand, opens: Open, options: Options, console: Console) -> int:
    """Execute *command* in its context; a signal cancels it."""
    signals = Signals()
    try:
        with signals.cancel_task():
            async with opens(options, console, signals) as context:
                return await command(context)
    except asyncio.CancelledError:
        if not signals.absorb_cancellation():
            raise
        console.notice("stopped")
        return signals.exit_status


def split_arguments(arguments: Sequence[str], corpus: Sequence[str]) -> tuple[str | None, list[str]]:
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
        return None, paths
    text = replace_invalid(read_all() if texts[0] == "-" else texts[0])
    if not text.strip():
        raise ConfigurationError('the question is empty: put it in quotes, such as "How does ... work?"')
    return text, paths


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long for a path, or the home of an unknown user
        return False
