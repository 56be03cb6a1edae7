"""The library of local documents, and the function that opens it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Literal, TypeVar

from ...errors import CorpusError, LibraryError
from ..library import Hit, Page, Source
from .files import FileCollection
from .index import ROW_BITS, Collection, connect, update
from .ranking import search
from .stdlib import StandardLibrary

_Answer = TypeVar("_Answer")
_logger = logging.getLogger("concertino.documents")
LONGEST_PAGE = 100_000


class DocumentLibrary:
    """A `Library` of files or docstrings; `open_documents` creates it. Any number of tasks may use it."""

    kind: Literal["documents"] = "documents"

    def __init__(self, connection: sqlite3.Connection, collection: Collection, index_file: Path | None) -> None:
        self.name = collection.name
        self.index_file = index_file
        """None: the index is in memory."""
        self._collection = collection
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = connection

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """Return the best passages for *query*, best first. Any text is a valid query.

        Raises `LibraryError` if the library is closed or its index is damaged.
        """
        return await asyncio.to_thread(self._use, lambda connection: search(connection, query, limit))

    async def open(self, location: str) -> Page:
        """Return the document at *location*: a hit's location or source id, a path on this machine, or a title.

        A heading after `#` restricts the page to that section. Raises `LibraryError` if there is no such document.
        """
        page = await asyncio.to_thread(self._use, lambda connection: self._page(connection, location))
        if page is None:
            raise LibraryError(
                f"{self.name}: no document {location!r:.300}; pass the location or source id of a search result"
            )
        return page

    async def document_count(self) -> int:
        """Return the number of documents that can be searched."""
        query = "SELECT count(*) FROM documents WHERE problem = ''"
        return await asyncio.to_thread(self._use, lambda connection: int(connection.execute(query).fetchone()[0]))

    async def close(self) -> None:
        """Close the index. May be called twice."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """Close the index, after a search in progress."""
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None

    def _use(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        with self._lock:
            if self._connection is None:
                raise LibraryError(f"{self.name}: the library is closed; open it again")
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                raise CorpusError(
                    f"{self.name}: the index {self.index_file or 'in memory'} cannot be read ({error}); delete it and"
                    " open the library again"
                ) from error

    def _page(self, connection: sqlite3.Connection, location: str) -> Page | None:
        location = location.replace("\0", "").encode("utf-8", "ignore").decode().strip()
        path, _, section = location.partition("#")
        for wanted in dict.fromkeys((location, self._collection.resolve(location), path, self._collection.resolve(path))):
            rows = connection.execute(
                "SELECT id, source, title, location FROM documents WHERE problem = ''"
                " AND (location = ?1 OR source = ?1 OR title = ?1 COLLATE NOCASE) LIMIT 2",
                (wanted,),
            ).fetchall()
            if len(rows) == 1:  # a title that two documents share would be a guess
                id, source, title, found = rows[0]
                text = _text(connection, id, section if wanted != location else "")
                return Page(source=Source(id=source, title=title, location=found), text=text)
        return None


def _text(connection: sqlite3.Connection, document: int, section: str) -> str:
    """Return a document, or one section of it, as Markdown."""
    rows = connection.execute(
        "SELECT headings, body FROM chunks WHERE rowid BETWEEN ? AND ? ORDER BY rowid",
        (document << ROW_BITS, (document + 1 << ROW_BITS) - 1),
    ).fetchall()
    chunks = [(tuple(headings.split("\n")) if headings else (), body) for headings, body in rows]
    wanted = section.strip().casefold()
    path = next((path for path, _ in chunks if wanted and wanted in (name.casefold() for name in path)), ())
    depth = next((place for place, name in enumerate(path, 1) if name.casefold() == wanted), 0)
    text = ""
    shown: tuple[str, ...] = ()
    for headings, body in chunks:
        if headings[:depth] != path[:depth]:
            continue
        same = next((n for n, (a, b) in enumerate(zip(headings, shown, strict=False)) if a != b), min(map(len, (headings, shown))))  # noqa: E501
        text += "".join(f"{'#' * min(n, 6)} {name}\n\n" for n, name in enumerate(headings, 1) if n > same)
        text, shown = f"{text}{body}\n\n", headings
        if len(text) > LONGEST_PAGE:
            return f"{text[:LONGEST_PAGE]}\n\n[The rest is left out; open a section: location#heading]"
    return text.rstrip() or "[This document is empty.]"


async def open_documents(
    paths: Sequence[str | Path] | None = None,
    *,
    cache_dir: Path | None = None,
    report: Callable[[str], None] = _logger.info,
) -> DocumentLibrary:
    """Open a library of the `.md`, `.rst`, `.txt` and `.html` files below *paths*.

    None stands for the docstrings of the running Python's standard library. The index is kept in *cache_dir*
    (`$XDG_CACHE_HOME/concertino`, else `~/.cache/concertino`) and brought up to date: only changed files are read.
    *report* receives lines for people on the event loop's thread. Cancelling leaves the index unchanged.

    Raises `CorpusError` for a path that does not exist or without anything to read, `MissingExtraError` for HTML files
    if their reader is not installed.
    """
    loop = asyncio.get_running_loop()
    cancelled = Event()

    def forward(line: str) -> None:
        if not cancelled.is_set():
            loop.call_soon_threadsafe(report, line)

    work = asyncio.ensure_future(asyncio.to_thread(_open, paths, cache_dir, forward, cancelled.is_set))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancelled.set()
        work.add_done_callback(_discard)
        raise


def _discard(work: asyncio.Future[DocumentLibrary]) -> None:
    """Close the library of a caller that was cancelled."""
    if not work.cancelled() and work.exception() is None:
        work.result().close_now()


def _open(
    paths: Sequence[str | Path] | None,
    cache_dir: Path | None,
    report: Callable[[str], None],
    stopped: Callable[[], bool],
) -> DocumentLibrary:
    collection: Collection = StandardLibrary() if paths is None else FileCollection(paths)
    if cache_dir is None:
        base = os.environ.get("XDG_CACHE_HOME", "")
        cache_dir = (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "concertino"
    file = cache_dir / f"{collection.key}.sqlite3"
    for attempt in ("damaged", "unusable"):
        try:
            return _filled(file, collection, report, stopped)
        except (OSError, sqlite3.OperationalError) as error:
            report(f"cannot keep the index in {cache_dir} ({error}); it is made in memory")
            break
        except sqlite3.DatabaseError as error:
            report(f"the index {file} is {attempt} ({error})")
            for ending in ("", "-wal", "-shm"):
                file.with_name(file.name + ending).unlink(missing_ok=True)
    return _filled(None, collection, report, stopped)


def _filled(
    file: Path | None, collection: Collection, report: Callable[[str], None], stopped: Callable[[], bool]
) -> DocumentLibrary:
    connection = connect(file)
    try:
        update(connection, collection, report, stopped)
    except BaseException:
        connection.close()
        raise
    return DocumentLibrary(connection, collection, file)
