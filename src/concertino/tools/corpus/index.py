"""The index: one SQLite file with the documents, their passages (FTS5) and the names they go by."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path

from ..._version import __version__
from ...errors import CorpusError
from ..library import source_id
from .blocks import Document
from .origin import Changes, Origin
from .passages import passages
from .words import anchor_keys, hidden_words, keys

ROW_BITS = 20
"""A passage's row number is its document's, shifted by this, plus its place in the document."""
MAX_TEXT = 200_000
"""How much of a document is kept to be opened; all that was read of it is searched."""
_BUSY_MS = 120_000

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, location TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL, text TEXT NOT NULL, stamp TEXT NOT NULL, problem TEXT NOT NULL
);
CREATE TABLE names (key TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (key, row)) WITHOUT ROWID;
CREATE INDEX names_by_row ON names (row);
CREATE VIRTUAL TABLE passages USING fts5 (
    title, heading, body, hidden, tokenize = 'porter unicode61 remove_diacritics 2'
);
"""


class StoppedError(Exception):
    """The caller gave up; nothing was written."""


@cache
def code_version() -> str:
    """Changes whenever this package changes: an index is only as good as the code that made it."""
    digest = blake2b(f"{__version__} {sqlite3.sqlite_version}".encode(), digest_size=8)
    for module in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def connect(path: Path | None) -> sqlite3.Connection:
    """Open an index file (or one in memory), made by this version of the code; an older one is emptied.

    Raises `sqlite3.OperationalError` where the file cannot be written, `sqlite3.DatabaseError` where it is damaged.
    """
    connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not _is_current(connection):
            with transaction(connection):
                if not _is_current(connection):
                    _create(connection)
        connection.execute("SELECT count(*) FROM passages WHERE passages MATCH '\"the\"'").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_current(connection: sqlite3.Connection) -> bool:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return False
    row = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    return bool(row and row[0] == code_version())


def _create(connection: sqlite3.Connection) -> None:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for name in ("passages", "names", "documents", "meta"):
        if (name,) in tables:
            connection.execute(f"DROP TABLE {name}")
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('version', ?)", (code_version(),))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; the write lock is held from the first line on."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _known(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT location, stamp FROM documents"))


def _capped(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n\n[Cut here: these are the first {MAX_TEXT:,} of {len(text):,} characters.]"


def _remove(connection: sqlite3.Connection, location: str) -> None:
    row = connection.execute("SELECT id FROM documents WHERE location = ?", (location,)).fetchone()
    if row:
        span = (row[0] << ROW_BITS, (row[0] + 1) << ROW_BITS)
        connection.execute("DELETE FROM passages WHERE rowid >= ? AND rowid < ?", span)
        connection.execute("DELETE FROM names WHERE row >= ? AND row < ?", span)
        connection.execute("DELETE FROM documents WHERE id = ?", row)


def _add(connection: sqlite3.Connection, document: Document) -> None:
    location, title = document.location, document.title
    cursor = connection.execute(
        "INSERT INTO documents (source, location, title, text, stamp, problem) VALUES (?, ?, ?, ?, ?, ?)",
        (source_id(location), location, title, _capped(document.text), document.stamp, document.problem),
    )
    first = (cursor.lastrowid or 0) << ROW_BITS
    names = [(key, first) for key in keys(location, title)]
    rows = []
    shown = f"{title} {hidden_words(title)}".strip()
    for row, passage in enumerate(passages(document.blocks), first):
        hidden = hidden_words(f"{passage.heading} {passage.body}")
        rows.append((row, shown, passage.heading, passage.body, hidden))
        names += [(key, row) for heading in passage.headings for key in anchor_keys(heading)]
    connection.executemany("INSERT INTO passages (rowid, title, heading, body, hidden) VALUES (?, ?, ?, ?, ?)", rows)
    connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", names)


def _apply(
    connection: sqlite3.Connection,
    origin: Origin,
    known: dict[str, str],
    changes: Changes,
    stopped: Callable[[], bool],
) -> tuple[int, int, int]:
    """Bring the index up to date; return how many documents are new, changed and removed."""
    new = changed = 0
    for location in changes.removed:
        _remove(connection, location)
    for document in origin.load(changes, stopped):
        if stopped():
            raise StoppedError
        if document.location in known:
            _remove(connection, document.location)
        _add(connection, document)
        if not document.problem:
            new += document.location not in known
            changed += document.location in known
    if stopped():
        raise StoppedError
    return new, changed, len(changes.removed)


def count(connection: sqlite3.Connection) -> int:
    """How many documents can be searched."""
    return int(connection.execute("SELECT count(*) FROM documents WHERE problem = ''").fetchone()[0])


def _documents(connection: sqlite3.Connection) -> str:
    number = count(connection)
    return f"{number:,} document{'s' * (number != 1)}"


def update(
    connection: sqlite3.Connection, origin: Origin, report: Callable[[str], None], stopped: Callable[[], bool]
) -> None:
    """Index what is new or changed, forget what is gone, all in one transaction, and say what was done.

    Raises `CorpusError` where there is nothing to index and `StoppedError` once *stopped* says so.
    """
    if not origin.changes(_known(connection)):
        _require_documents(connection, origin)
        report(f"index is up to date: {_documents(connection)}")
    else:
        with transaction(connection):
            # Another process may have done the work while this one waited for the lock.
            known = _known(connection)
            done = _apply(connection, origin, known, origin.changes(known), stopped)
            _require_documents(connection, origin)
        new, changed, removed = done
        report(f"indexed {_documents(connection)} ({new:,} new, {changed:,} changed, {removed:,} removed)")
    for remark in origin.remarks():
        report(remark)


def _require_documents(connection: sqlite3.Connection, origin: Origin) -> None:
    if not count(connection):
        raise CorpusError("; ".join([origin.empty, *origin.remarks()]))
