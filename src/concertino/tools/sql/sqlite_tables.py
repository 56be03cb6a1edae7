"""A SQLite database that answers a model's queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from ...errors import ConfigurationError, ToolError, WorkerError
from ...number_checks import check_amount, check_whole
from ..tables import QueryRows
from ..workers import in_worker
from .sqlite_query import read_columns, run_query

_LONGEST_SCHEMA = 20_000
_MEGABYTES = 500
"""Memory of a query."""


class SqliteTables:
    """The tables and views of the SQLite file at *path*, for `data_analysis`. A `Tables`.

    *only* lists the tables and views that may be read; None for all. A listed view may read tables that are not listed.
    A query runs in a worker process, returns at most *rows* rows and takes at most *seconds*.

    Raises `ConfigurationError` if there is no such database, table or view.
    """

    def __init__(
        self, path: str | Path, *, only: Collection[str] | None = None, rows: int = 200, seconds: float = 10.0
    ) -> None:
        check_whole("SqliteTables", "rows", rows)
        check_amount("SqliteTables", "seconds", seconds, "seconds above 0")
        self._uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        self._only = None if only is None else sorted({name.casefold() for name in only})
        self._rows = rows
        self._seconds = seconds
        try:
            found = read_columns(self._uri)
        except sqlite3.Error as error:
            raise ConfigurationError(f"cannot read the database {str(path)!r}: {error}") from error
        missing = sorted(set(self._only or ()) - {name.casefold() for name in found})
        if missing:
            raise ConfigurationError(f"{str(path)!r} has no table or view {missing[0]!r}: it has {', '.join(found)}")

    def schema(self) -> str:
        """Return a line for each table: its name, and its columns with their types."""
        lines = [
            f"{table}({', '.join([f'{name} {kind}'.rstrip() for name, kind in columns])})"
            for table, columns in read_columns(self._uri).items()
            if self._only is None or table.casefold() in self._only
        ]
        text = "\n".join(lines) or "there are no tables"
        return text if len(text) <= _LONGEST_SCHEMA else text[:_LONGEST_SCHEMA] + "\n[more tables are left out]"

    async def query(self, sql: str) -> QueryRows:
        """See `Tables.query`. Cancelling stops the query."""
        given = (self._uri, self._only, self._rows, self._seconds, sql)
        try:
            answer = await in_worker(run_query, *given, cpu_seconds=self._seconds + 1, megabytes=_MEGABYTES)
        except WorkerError as error:
            raise ToolError(f"the query takes too much: {error}; read fewer rows, or aggregate") from None
        if "error" in answer:
            raise ToolError(answer["error"])
        return QueryRows(**answer)
