"""A library of documents on this machine, searched through an index."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TypeVar

from ...errors import CorpusError, LibraryError
from ..library import Hit, Page, Source
from . import ranking, words
from .index import ROW_BITS, count
from .origin import Origin

Answer = TypeVar("Answer")


class Corpus:
    """A `Library` of files or docstrings; `open_corpus` makes it. May be used by many tasks at once."""

    def __init__(self, connection: sqlite3.Connection, origin: Origin, file: Path | None) -> None:
        self.name = origin.name
        self._origin = origin
        self._file = file
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = connection

    @property
    def index_file(self) -> Path | None:
        """Where the index is kept, or None for one in memory."""
        return self._file

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """The best passages for *query*, best first, at most two of a document; any text is a valid query.

        Raises `LibraryError` when the index is closed or damaged.
        """
        return await asyncio.to_thread(self._guarded, lambda connection: ranking.search(connection, query, limit))

    async def open(self, location: str) -> Page:
        """The document at *location*: as a hit gave it, its source id, a path on this machine, or a full name.

        Raises `LibraryError` when there is no such document, or the index is closed or damaged.
        """
        page = await asyncio.to_thread(self._guarded, lambda connection: self._page(connection, location))
        if page is None:
            raise LibraryError(
                f"{self.name}: no document {location!r}; pass the location or the source id of a search hit"
            )
        return page

    async def document_count(self) -> int:
        """How many documents can be searched."""
        return await asyncio.to_thread(self._guarded, count)

    async def close(self) -> None:
        """Close the index. May be called twice."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """Close the index at once, waiting for a search that is under way. May be called twice."""
        with self._lock:
            if self._connection:
                self._connection.close()
            self._connection = None

    def _guarded(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Use the connection alone; what goes wrong with the file is told with its remedy."""
        with self._lock:
            if self._connection is None:
                raise LibraryError(f"{self.name}: the corpus is closed; open it again")
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                where = f"; delete {self._file}" if self._file else ""
                raise CorpusError(
                    f"{self.name}: the index cannot be read ({error}){where} and open the corpus again"
                ) from error

    def _page(self, connection: sqlite3.Connection, location: str) -> Page | None:
        wanted = words.clean(location).strip()
        tries = [wanted, wanted.partition("#")[0], self._origin.resolve(wanted)]
        for candidate in dict.fromkeys(tries):
            row = connection.execute(
                "SELECT source, title, location, text FROM documents"
                " WHERE (location = ? OR source = ?) AND problem = ''",
                (candidate, candidate),
            ).fetchone()
            if row:
                return _as_page(row)
        named = connection.execute(
            "SELECT DISTINCT source, title, location, text FROM names JOIN documents ON documents.id = row >> ?"
            " WHERE key = ? AND problem = '' LIMIT 2",
            (ROW_BITS, words.normal(wanted)),
        ).fetchall()
        # A name that two documents go by would be a guess.
        return _as_page(named[0]) if len(named) == 1 else None


def _as_page(row: tuple[str, str, str, str]) -> Page:
    source, title, location, text = row
    return Page(source=Source(id=source, title=title, location=location), text=text or "[This document is empty.]")
