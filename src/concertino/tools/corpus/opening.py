"""Opening a corpus: find its index, mend or make it, bring it up to date."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

from .corpus import Corpus
from .files import Files
from .index import connect, update
from .origin import Origin
from .stdlib import StandardLibrary

Report = Callable[[str], None]


def _log(line: str) -> None:
    logging.getLogger("concertino.corpus").info(line)


async def open_corpus(
    paths: Sequence[str | Path] | None, *, cache_dir: Path | None = None, report: Report = _log
) -> Corpus:
    """Open a library of the documents under *paths*: folders and files, read if they end in `.md`, `.markdown`,
    `.rst`, `.txt`, `.html` or `.htm`. None means the docstrings of this machine's Python standard library.

    The index is kept in *cache_dir* (`$XDG_CACHE_HOME/concertino`, else `~/.cache/concertino`) and brought up to
    date each time; of files longer than 8 MB the first 8 MB are read. *report* gets one line for people at a time,
    on the event loop's thread: what was indexed, left out, or mended.

    Raises `CorpusError` for a path that does not exist and where there is nothing to read, `MissingExtraError`
    for HTML files where the extra `web` is not installed. Cancelling leaves the index as it was.
    """
    loop = asyncio.get_running_loop()
    given_up = Event()

    def tell(line: str) -> None:
        if not given_up.is_set():
            loop.call_soon_threadsafe(report, line)

    work = asyncio.ensure_future(asyncio.to_thread(_open, paths, cache_dir, tell, given_up.is_set))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        given_up.set()
        work.add_done_callback(_discard)
        raise


def _discard(work: asyncio.Future[Corpus]) -> None:
    """Close what was opened for a caller who has gone."""
    if not work.cancelled() and work.exception() is None:
        work.result().close_now()


def _open(
    paths: Sequence[str | Path] | None, cache_dir: Path | None, report: Report, stopped: Callable[[], bool]
) -> Corpus:
    origin: Origin = StandardLibrary() if paths is None else Files(paths)
    file = _index_file(cache_dir, origin.key)
    try:
        return _opened(file, origin, report, stopped)
    except (OSError, sqlite3.OperationalError) as error:
        report(f"the index cannot be kept in {file.parent} ({error}); this time it is made in memory")
    except sqlite3.DatabaseError as error:
        report(f"the index {file} was damaged ({error}); making it anew")
        return _remade(file, origin, report, stopped)
    return _filled(connect(None), origin, None, report, stopped)


def _index_file(cache_dir: Path | None, key: str) -> Path:
    if cache_dir is None:
        base = os.environ.get("XDG_CACHE_HOME", "")
        cache_dir = (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "concertino"
    return Path(cache_dir) / f"{key}.sqlite3"


def _opened(file: Path, origin: Origin, report: Report, stopped: Callable[[], bool]) -> Corpus:
    file.parent.mkdir(parents=True, exist_ok=True)
    return _filled(connect(file), origin, file, report, stopped)


def _remade(file: Path, origin: Origin, report: Report, stopped: Callable[[], bool]) -> Corpus:
    try:
        for ending in ("", "-wal", "-shm"):
            file.with_name(file.name + ending).unlink(missing_ok=True)
        return _opened(file, origin, report, stopped)
    except (OSError, sqlite3.DatabaseError) as error:
        report(f"the index {file} cannot be made anew ({error}); this time it is made in memory")
    return _filled(connect(None), origin, None, report, stopped)


def _filled(
    connection: sqlite3.Connection,
    origin: Origin,
    file: Path | None,
    report: Report,
    stopped: Callable[[], bool],
) -> Corpus:
    try:
        update(connection, origin, report, stopped)
    except BaseException:
        connection.close()
        raise
    return Corpus(connection, origin, file)
