"""The library of local documents: its index in one SQLite file, and the function that opens it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Event, Lock
from typing import Literal, Protocol, TypeVar

from ...errors import CorpusError, LibraryError
from ..library import Hit, Page, Source, source_id
from .files import FileCollection
from .markdown import ReadDocument
from .ranking import ROW_BITS, hidden_words, search

_T = TypeVar("_T")
_Report = Callable[[str], object]
_logger = logging.getLogger("concertino.documents")
_LONGEST_PAGE = 100_000
_SOURCES = b"".join(module.read_bytes() for module in sorted(Path(__file__).parent.glob("*.py")))
_VERSION = int.from_bytes(blake2b(sqlite3.sqlite_version.encode() + _SOURCES, digest_size=3).digest())
"""Version of an index: a number that changes with the code of this package and with SQLite."""
_SCHEMA = """
DROP TABLE IF EXISTS documents; DROP TABLE IF EXISTS chunks;
CREATE TABLE documents (id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, location TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL, stamp TEXT NOT NULL, problem TEXT NOT NULL);
CREATE VIRTUAL TABLE chunks USING fts5 (title, headings, body, hidden, version UNINDEXED, date UNINDEXED,
    is_change UNINDEXED, tokenize = 'porter unicode61 remove_diacritics 2');
"""


class Collection(Protocol):
    """The documents that an index is made from, such as the files of some folders."""

    name: str
    key: str  # the name of the index file: the same for the same documents

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return a stamp for each location, which changes with the document; *known* are those of the index."""

    def read(self, location: str) -> ReadDocument:
        """Read a document of the last scan; return an empty one, with the problem, if it cannot be read."""

    def remarks(self) -> Sequence[str]:
        """Return lines for people about documents that were left out."""


class DocumentLibrary:
    """A `Library` of documents on this machine; `open_documents` creates it. Any number of tasks may share it."""

    kind: Literal["documents"] = "documents"

    def __init__(self, connection: sqlite3.Connection, name: str, index_file: Path | None) -> None:
        self.name = name
        self.index_file = index_file  # None for an index in memory
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = connection

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """Return the best passages for *query*, best first; any text is a valid query.

        Raises `LibraryError` if the library is closed or its index is damaged.
        """
        return await asyncio.to_thread(self._use, lambda connection: search(connection, query, limit))

    async def open(self, location: str) -> Page:
        """Return the document with this location, source id or title; `#Heading` after it selects one section.

        Raises `LibraryError` if there is no such document.
        """
        return await asyncio.to_thread(self._use, lambda connection: _page(connection, self.name, location))

    async def close(self) -> None:
        """Close the index. May be called twice."""
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None

    def _use(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            if self._connection is None:
                raise LibraryError(f"{self.name}: the library is closed; open it again")
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                raise CorpusError(f"{self.name}: cannot read the index ({error}); delete {self.index_file}") from error


def _page(connection: sqlite3.Connection, library: str, location: str) -> Page:
    location = location.replace("\0", "").encode("utf-8", "ignore").decode().strip()
    for wanted, section in ((location, ""), location.rsplit("#", 1) if "#" in location else (location, "")):
        found = connection.execute(
            "SELECT id, source, title, location FROM documents WHERE location = :name OR source = :name"
            " OR title = :name COLLATE NOCASE LIMIT 2",
            {"name": wanted.removesuffix("()")},
        ).fetchall()  # fmt: skip
        if len(found) == 1:  # a title that two documents share would be a guess
            id, source, title, where = found[0]
            return Page(source=Source(id=source, title=title, location=where), text=_text(connection, id, section))
    raise LibraryError(f"{library}: no document {location!r:.300}; pass the location of a search result")


def _text(connection: sqlite3.Connection, document: int, section: str) -> str:
    """Return a document as Markdown, or the part of it below the heading *section*, if it has that heading."""
    rows = connection.execute(
        "SELECT headings, body FROM chunks WHERE rowid BETWEEN ? AND ? ORDER BY rowid",
        (document << ROW_BITS, (document + 1 << ROW_BITS) - 1),
    ).fetchall()
    inside = [row for row in rows if section.casefold() in row[0].casefold().split("\n")] if section else []
    text, above = "", list[str]()
    for headings, body in inside or rows:
        path = [f"{'#' * min(level, 6)} {name}\n\n" for level, name in enumerate(headings.split("\n"), 1) if name]
        text += "".join(path[len(os.path.commonprefix([path, above])) :]) + f"{body}\n\n"  # noqa: RUF071 - of lists
        above = path
        if len(text) > _LONGEST_PAGE:
            return f"{text[:_LONGEST_PAGE]}\n\n[The rest is left out; read a section: location#Heading]"
    return text.rstrip() or "[This document is empty.]"


async def open_documents(
    documents: Sequence[str | Path] | Collection,
    *,
    cache_dir: Path | None = None,
    report: Callable[[str], None] = _logger.info,
) -> DocumentLibrary:
    """Open a library of *documents*: paths of `.md`, `.rst`, `.txt` and `.html` files and of folders, or a collection.

    The index is kept in *cache_dir* (`$XDG_CACHE_HOME/concertino`, else `~/.cache/concertino`) and brought up to date:
    only changed files are read. *report* receives lines for people, on the event loop's thread. Cancelling leaves the
    index unchanged.

    Raises `CorpusError` for a path that does not exist or without anything to read, `MissingExtraError` for HTML files
    if their reader is not installed.
    """
    collection = FileCollection(documents) if isinstance(documents, Sequence) else documents
    loop = asyncio.get_running_loop()
    cancelled = Event()
    forward = lambda line: cancelled.is_set() or loop.call_soon_threadsafe(report, line)  # noqa: E731
    work = asyncio.create_task(asyncio.to_thread(_open, collection, cache_dir, forward, cancelled))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancelled.set()
        with suppress(Exception):
            await (await work).close()
        raise


def _open(collection: Collection, cache_dir: Path | None, report: _Report, stopped: Event) -> DocumentLibrary:
    cache_dir = cache_dir or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concertino"
    file = cache_dir / f"{collection.key}.sqlite3"
    for _ in range(2):
        try:
            return _indexed(file, collection, report, stopped)
        except (OSError, sqlite3.OperationalError) as error:
            report(f"cannot keep the index in {cache_dir} ({error}); it is made in memory")
            break
        except sqlite3.DatabaseError as error:
            report(f"the index {file} is damaged ({error}); it is made again")
            for ending in ("", "-wal", "-shm"):
                file.with_name(file.name + ending).unlink(missing_ok=True)
    return _indexed(None, collection, report, stopped)


def _indexed(file: Path | None, collection: Collection, report: _Report, stopped: Event) -> DocumentLibrary:
    """Open an index and bring it up to date in one transaction; an index made by other code is made again."""
    if file:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))  # private, since an index repeats what it indexes
        file.chmod(0o600)  # also if an earlier version made it
    connection = sqlite3.connect(file or ":memory:", isolation_level=None, check_same_thread=False, timeout=120)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        with connection:
            connection.execute("BEGIN IMMEDIATE")  # another process waits here, and then finds the work done
            if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                for statement in [*_SCHEMA.split(";"), f"PRAGMA user_version = {_VERSION}"]:
                    connection.execute(statement)
            connection.execute("SELECT rowid FROM chunks WHERE chunks MATCH 'the'").fetchone()
            changed = _update(connection, collection, stopped)
            number = connection.execute("SELECT count(DISTINCT rowid >> ?) FROM chunks", (ROW_BITS,)).fetchone()[0]
            partly = connection.execute(
                "SELECT location, problem FROM documents WHERE problem != '' ORDER BY id"
            ).fetchall()
            named = "; ".join(f"{location} ({problem})" for location, problem in partly[:3])
            remarks = [*collection.remarks(), *([f"{len(partly)} files not read in full: {named}"] if partly else [])]
            if not number:
                nothing = f"nothing to read in {collection.name}: name a folder of .md, .rst, .txt or .html files"
                raise CorpusError("; ".join([nothing, *remarks]))  # noqa: TRY301 - rolls back
        state = f"{changed:,} read" if changed else "the index is current"
        for line in [f"{number:,} document{'' if number == 1 else 's'} in {collection.name}: {state}", *remarks]:
            report(line)
    except BaseException:
        connection.close()
        raise
    return DocumentLibrary(connection, collection.name, file)


def _update(connection: sqlite3.Connection, collection: Collection, stopped: Event) -> int:
    known = dict(connection.execute("SELECT location, stamp FROM documents"))
    stamps = collection.scan(known)
    changed = [location for location, stamp in stamps.items() if known.get(location) != stamp]
    for location in [*(known.keys() - stamps.keys()), *changed]:
        for (id,) in connection.execute("SELECT id FROM documents WHERE location = ?", (location,)).fetchall():
            span = (id << ROW_BITS, (id + 1 << ROW_BITS) - 1)
            connection.execute("DELETE FROM chunks WHERE rowid BETWEEN ? AND ?", span)
            connection.execute("DELETE FROM documents WHERE id = ?", (id,))
    for location in changed:
        if stopped.is_set():
            raise asyncio.CancelledError
        _add(connection, collection.read(location), location, stamps[location])
    return len(changed)


def _add(connection: sqlite3.Connection, document: ReadDocument, location: str, stamp: str) -> None:
    insert = "INSERT INTO documents (source, location, title, stamp, problem) VALUES (?, ?, ?, ?, ?)"
    values = (source_id(location), location, document.title, stamp, document.problem)
    first = (connection.execute(insert, values).lastrowid or 0) << ROW_BITS
    for row, chunk in enumerate(document.chunks, first):
        texts = (document.title, "\n".join(chunk.headings), chunk.body)
        cells = (row, *texts, hidden_words("\n".join(texts)), *chunk[2:])
        connection.execute("INSERT INTO chunks (rowid, title, headings, body, hidden, version, date, is_change)"
                           " VALUES (?, ?, ?, ?, ?, ?, ?, ?)", cells)  # fmt: skip
