"""The program around a command: what it was given, what it works with, and its exit status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConcertinoError, ConfigurationError
from .context import Desk, Given, Means, Options, desk, opened
from .render.console import OutputError, Screen, abandon_output, log_in_lines, mended, read_all
from .signals import Stop

Command = Callable[[str | None, Means], Coroutine[Any, Any, int]]
"""Does its work on the text it was given, with the means; gives the exit status."""

Work = Callable[[Desk], Coroutine[Any, Any, int]]
"""Does its work with what was kept before; gives the exit status."""

_OUTPUT_GONE = 141
"""What a shell calls a program that SIGPIPE has ended."""


def perform(command: Command, words: Sequence[str], options: Options, *, needs_text: bool) -> int:
    """Do *command*, and turn each way in which that may end into a status."""
    screen = Screen(as_json=options.as_json)

    def do() -> int:
        text, corpus = split(words, options.corpus)
        if needs_text and text is None:
            raise ConfigurationError('the question is missing; ask one: concertino research "How does ... work?"')
        return asyncio.run(_main(command, text, options.with_corpus(corpus), screen))

    return _guarded(do, screen)


def perform_at_desk(work: Work, given: Given, *, as_json: bool) -> int:
    """Do *work* with what was kept before, and turn each way in which that may end into a status."""
    screen = Screen(as_json=as_json)
    return _guarded(lambda: asyncio.run(_at_desk(work, given, screen)), screen)


def _guarded(do: Callable[[], int], screen: Screen) -> int:
    log_in_lines(screen.notice)
    try:
        return do()
    except KeyboardInterrupt:
        return 130
    except OutputError as error:
        abandon_output()
        if not str(error):
            return _OUTPUT_GONE
        screen.notice(f"concertino: {error}")
        return 1
    except ConcertinoError as error:  # a run's own errors are in its result: this is about the set-up
        screen.notice(f"concertino: {error}")
        return 2


async def _at_desk(work: Work, given: Given, screen: Screen) -> int:
    stop = Stop()
    try:
        with stop.cancels():
            async with desk(given, screen, stop) as opened_desk:
                return await work(opened_desk)
    except asyncio.CancelledError:
        if not stop.taken():
            raise
        screen.notice("stopped")
        return stop.status


async def _main(command: Command, text: str | None, options: Options, screen: Screen) -> int:
    stop = Stop()
    try:
        async with opened(options, screen, stop) as means:
            return await command(text, means)
    except asyncio.CancelledError:
        if not stop.taken():
            raise
        screen.notice("stopped before the run had begun")
        return stop.status


def split(words: Sequence[str], corpus: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The text and the paths: of several words beside `--corpus`, those that exist as paths belong to it.

    Without words the text is None; of `-` it is all of standard input. Raises `ConfigurationError` for more than
    one text, and for an empty one.
    """
    texts, paths = list(words), list(corpus)
    if len(texts) > 1 and corpus:
        others = [word for word in texts if not _exists(word)] or texts[:1]
        paths += [word for word in texts if word not in others]
        texts = others
    if len(texts) > 1:
        there = ", and check that each path after --corpus exists" if corpus else ""
        shown = ", ".join(repr(mended(text)) for text in texts[:3])
        raise ConfigurationError(f"one text is wanted, not {len(texts)} ({shown}): put it in quotes{there}")
    if not texts:
        return None, tuple(paths)
    text = mended(read_all() if texts[0] == "-" else texts[0])
    if not text.strip():
        raise ConfigurationError('the question is empty; ask one, in quotes: "How does ... work?"')
    return text, tuple(paths)


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long for a path, or a user that nobody knows
        return False
