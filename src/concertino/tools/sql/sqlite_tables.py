"""A SQLite database that answers a model's queries.

The query is hostile input. Several fences stand in its way, and each of them alone prevents writing: the file is opened
read-only, `query_only` is set, and the authorizer allows nothing but reading. It also refuses ATTACH and PRAGMA, the
ways to a second file, and only one statement runs. Limits bound the rows, the size of a value and of the answer, the
time, and the patterns and expressions whose cost grows faster than their length.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

from ...errors import ConfigurationError, ToolError
from ..tables import QueryRows

_LONGEST_VALUE = 250_000
"""Bytes per value. `instr` of two halves of it takes about a second, and nothing interrupts a function."""
_LONGEST_ANSWER = 100_000
_LONGEST_SCHEMA = 20_000
_STEPS = 10_000
"""Instructions of SQLite's machine between two looks at the clock."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_HARMLESS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
"""The built-in functions that reach beyond the database. The connection has no functions of its own."""
_COLUMNS = """
SELECT tables.name, columns.name, columns.type FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type IN ('table', 'view') AND tables.name NOT GLOB 'sqlite_*' ORDER BY tables.name, columns.cid
"""


class SqliteTables:
    """The tables and views of the SQLite file at *path*, for `data_analysis`. A `Tables`.

    *only* names the tables and views that may be read; None for all. A view may read tables that are not named. A query
    returns at most *rows* rows and takes at most *seconds*.

    Raises `ConfigurationError` if there is no such database, table or view.
    """

    def __init__(
        self, path: str | Path, *, only: Collection[str] | None = None, rows: int = 200, seconds: float = 10.0
    ) -> None:
        self._uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        self._only = None if only is None else {name.casefold() for name in only}
        self._rows = rows
        self._seconds = seconds
        try:
            found = self._tables()
        except sqlite3.Error as error:
            raise ConfigurationError(f"cannot read the database {str(path)!r}: {error}") from error
        missing = sorted((self._only or set()) - {name.casefold() for name in found})
        if missing:
            raise ConfigurationError(f"{str(path)!r} has no table or view {missing[0]!r}: it has {', '.join(found)}")

    def schema(self) -> str:
        """Return a line for each table: its name, and its columns with their types."""
        lines = [f"{name}({', '.join(columns)})" for name, columns in self._tables().items() if self._shows(name)]
        text = "\n".join(lines) or "there are no tables"
        return text if len(text) <= _LONGEST_SCHEMA else text[:_LONGEST_SCHEMA] + "\n[more tables are left out]"

    async def query(self, sql: str) -> QueryRows:
        """See `Tables.query`. Cancelling stops the query."""
        cancelled = Event()
        try:
            return await asyncio.to_thread(self._query, sql, cancelled)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _tables(self) -> dict[str, list[str]]:
        tables: dict[str, list[str]] = {}
        with closing(sqlite3.connect(self._uri, uri=True)) as connection:
            for table, column, kind in connection.execute(_COLUMNS):
                tables.setdefault(table, []).append(f"{column} {kind}".rstrip())
        return tables

    def _shows(self, name: str) -> bool:
        return self._only is None or name.casefold() in self._only

    def _query(self, sql: str, cancelled: Event) -> QueryRows:
        until = time.monotonic() + self._seconds
        try:
            with closing(sqlite3.connect(self._uri, uri=True, isolation_level=None)) as connection:
                connection.execute("PRAGMA query_only = ON")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.text_factory = lambda data: data.decode(errors="replace")
                for limit, most in _LIMITS.items():
                    connection.setlimit(limit, most)
                connection.set_authorizer(self._authorize)
                connection.set_progress_handler(lambda: cancelled.is_set() or time.monotonic() > until, _STEPS)
                return self._read(connection.execute(sql))
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise ToolError(self._explained(error)) from None

    def _read(self, cursor: sqlite3.Cursor) -> QueryRows:
        columns = [column[0] for column in cursor.description or ()]
        rows: list[list[Any]] = []
        size = 0
        for row in cursor:
            values = [f"<{len(value)} bytes>" if isinstance(value, bytes) else value for value in row]
            size += sum(len(value) if isinstance(value, str) else 8 for value in values)
            if len(rows) == self._rows or size > _LONGEST_ANSWER:
                return QueryRows(columns=columns, rows=rows, more=True)
            rows.append(values)
        return QueryRows(columns=columns, rows=rows)

    def _authorize(self, action: int, first: str | None, second: str | None, _: str | None, view: str | None) -> int:
        """Allow reading, and nothing else. *view* is the innermost view that reads."""
        if action in _HARMLESS:
            allowed = True
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").casefold() not in _REFUSED_FUNCTIONS
        else:
            allowed = action == sqlite3.SQLITE_READ and (self._shows(first or "") or self._shows_view(view))
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _shows_view(self, view: str | None) -> bool:
        return view is not None and self._shows(view)

    def _explained(self, error: Exception) -> str:
        text = str(error)
        if text == "interrupted":
            return f"the query did not end within {self._seconds:g} s: read fewer rows, or aggregate"
        if "not authorized" in text or "prohibited" in text or "readonly" in text:
            return f"refused ({text}): use one SELECT over the tables of the schema"
        return f"{text}; empty `sql` shows the schema"
