"""The index: one SQLite file with the documents and their chunks."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Protocol

from ..._version import __version__
from ...errors import CorpusError
from ..library import source_id
from .chunks import chunks
from .document import Document
from .terms import hidden_words

ROW_BITS = 20
"""A chunk's row number is that of its document, shifted by this many bits, plus its index in the document."""
_BUSY_MS = 120_000
_SCHEMA = """
DROP TABLE IF EXISTS meta; DROP TABLE IF EXISTS documents; DROP TABLE IF EXISTS chunks;
CREATE TABLE meta (version TEXT NOT NULL);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, location TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL, stamp TEXT NOT NULL, problem TEXT NOT NULL
);
CREATE VIRTUAL TABLE chunks USING fts5 (
    title, headings, body, hidden, version UNINDEXED, date UNINDEXED, is_change UNINDEXED,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
"""


class Collection(Protocol):
    """The documents that an index is made of."""

    name: str
    """The name shown to people."""
    key: str
    """The name of the index file: the same for the same documents."""

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return the current stamp of each document by location; *known* has those of the index."""
        ...

    def read(self, location: str) -> Document:
        """Read a document of the last scan. A document that cannot be read has a `problem`."""
        ...

    def remarks(self) -> Iterable[str]:
        """Return lines for people about documents that were left out or read in part."""
        ...

    def resolve(self, location: str) -> str:
        """Return the location that the index uses for *location*, such as a path on this machine."""
        ...


class StoppedError(Exception):
    """The caller was cancelled; nothing was written."""


@cache
def _code_version() -> str:
    """Return a value that changes with this package: an index made by other code is made again."""
    digest = blake2b(f"{__version__} {sqlite3.sqlite_version}".encode(), digest_size=8)
    for module in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def connect(path: Path | None) -> sqlite3.Connection:
    """Open an index file, or one in memory; an index of another version is emptied.

    Raises `OSError` or `sqlite3.OperationalError` if the file cannot be written, `sqlite3.DatabaseError` if it is
    damaged.
    """
    if path:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # private: an index repeats what it indexes
    connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        with transaction(connection):
            if not _is_current(connection):
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES (?)", (_code_version(),))
        connection.execute("SELECT count(*) FROM chunks WHERE chunks MATCH 'the'").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_current(connection: sqlite3.Connection) -> bool:
    try:
        return connection.execute("SELECT version FROM meta").fetchone() == (_code_version(),)
    except sqlite3.OperationalError:
        return False  # a new file has no tables


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all or nothing; the write lock is taken at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def update(
    connection: sqlite3.Connection, collection: Collection, report: Callable[[str], None], stopped: Callable[[], bool]
) -> None:
    """Index new and changed documents and remove those that are gone, in one transaction.

    Raises `CorpusError` if there is nothing to read, `StoppedError` once *stopped* returns true.
    """
    known = _known(connection)
    changed = collection.scan(known) != known
    if changed:
        with transaction(connection):
            known = _known(connection)  # another process may have done the work while this one waited for the lock
            new = _apply(connection, collection, known, stopped)
            if not _count(connection):
                raise CorpusError("; ".join([f"nothing to read in {collection.name}", *collection.remarks()]))
    number = _count(connection)
    made = f"indexed {number:,} documents: {new:,} read" if changed else f"the index of {number:,} documents is current"
    report(made)
    for remark in collection.remarks():
        report(remark)


def _known(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT location, stamp FROM documents"))


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM documents WHERE problem = ''").fetchone()[0])


def _apply(
    connection: sqlite3.Connection, collection: Collection, known: Mapping[str, str], stopped: Callable[[], bool]
) -> int:
    stamps = collection.scan(known)
    for location in known.keys() - stamps.keys():
        _remove(connection, location)
    changed = [location for location, stamp in stamps.items() if known.get(location) != stamp]
    for location in changed:
        if stopped():
            raise StoppedError
        _remove(connection, location)
        _add(connection, collection.read(location), stamps[location])
    return len(changed)


def _remove(connection: sqlite3.Connection, location: str) -> None:
    for (id,) in connection.execute("SELECT id FROM documents WHERE location = ?", (location,)).fetchall():
        connection.execute("DELETE FROM chunks WHERE rowid BETWEEN ? AND ?", (id << ROW_BITS, (id + 1 << ROW_BITS) - 1))
        connection.execute("DELETE FROM documents WHERE id = ?", (id,))


def _add(connection: sqlite3.Connection, document: Document, stamp: str) -> None:
    title = document.title or Path(document.location).stem
    row = (_free_id(connection, document.location), document.location, title, stamp, document.problem)
    insert = "INSERT INTO documents (source, location, title, stamp, problem) VALUES (?, ?, ?, ?, ?)"
    first = (connection.execute(insert, row).lastrowid or 0) << ROW_BITS
    connection.executemany(
        "INSERT INTO chunks (rowid, title, headings, body, hidden, version, date, is_change)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (first + place, title, "\n".join(chunk.headings), chunk.body,
             hidden_words("\n".join((title, *chunk.headings, chunk.body))),
             chunk.version, chunk.date, chunk.is_change)
            for place, chunk in enumerate(chunks(document))
        ),
    )  # fmt: skip


def _free_id(connection: sqlite3.Connection, location: str) -> str:
    """Return the id of *location*, or another one if a document chosen for its colliding id has it already."""
    for salt in count():
        found = source_id(location + "\0" * salt)
        if not connection.execute("SELECT 1 FROM documents WHERE source = ?", (found,)).fetchone():
            return found
    raise AssertionError
