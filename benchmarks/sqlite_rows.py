"""The floor of a system's own rows: a run's rows once more, in the same number of bare transactions."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

Rows = list[tuple[str, tuple[Any, ...]]]
"""Statements that write one row each, with their values."""
_TABLES = """
    SELECT name, sql FROM sqlite_schema
    WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%' AND name NOT IN (
        SELECT shadow.name FROM sqlite_schema AS shadow JOIN sqlite_schema AS virtual
        ON virtual.sql LIKE 'CREATE VIRTUAL%' AND shadow.name LIKE virtual.name || '_%'
    )
"""
_INDEXES = "SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"


class BareRows:
    """A copy of the tables of another file, to which its new rows are written."""

    def __init__(self, source: Path, copy: Path) -> None:
        """Make the tables and indexes of *source* in *copy*, empty, with the same durability."""
        self._source = source
        self._connection = sqlite3.connect(copy, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        with closing(sqlite3.connect(source)) as original:
            self._tables = dict(original.execute(_TABLES).fetchall())
            indexes = [sql for table, sql in original.execute(_INDEXES) if table in self._tables]
        for sql in (*self._tables.values(), *indexes):
            self._connection.execute(sql)
        self._seen: dict[str, set[tuple[Any, ...]]] = {table: set() for table in self._tables}
        self.write(self.fresh(), 1)

    def fresh(self) -> Rows:
        """Return the rows that are new or changed in the source since the last call."""
        rows: Rows = []
        with closing(sqlite3.connect(self._source)) as original:
            for table, seen in self._seen.items():
                found = [row for row in original.execute(f'SELECT * FROM "{table}"') if row not in seen]
                seen.update(found)
                rows += [(f'REPLACE INTO "{table}" VALUES ({", ".join("?" * len(row))})', row) for row in found]
        return rows

    def write(self, rows: Rows, transactions: int) -> float:
        """Write *rows* in that many transactions, and return the seconds that it took."""
        size = max(-(-len(rows) // transactions), 1)
        connection, begun = self._connection, time.perf_counter()
        for first in range(0, len(rows), size):
            connection.execute("BEGIN IMMEDIATE")
            for sql, values in rows[first : first + size]:
                connection.execute(sql, values)
            connection.execute("COMMIT")
        return time.perf_counter() - begun

    def close(self) -> None:
        """Close the copy."""
        self._connection.close()
