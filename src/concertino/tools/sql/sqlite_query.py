"""A query of a model over a SQLite file. It runs in a worker process.

The query is hostile input. Several fences stand in its way, and each of them alone prevents writing: the file is opened
read-only, `query_only` is set, and the authorizer allows nothing but reading. It also refuses ATTACH and PRAGMA, the
ways to a second file, and only one statement runs. Limits bound the rows, the size of a value and of the answer, and
the time. What they cannot bound, such as one call of a function or the memory of a sort, the worker's limits do.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

_LONGEST_VALUE = 250_000
"""Bytes per value. `instr` of two halves of it takes about a second, and nothing interrupts a function."""
_LONGEST_ANSWER = 100_000
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
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer", "printf", "format"}
"""`load_extension` and `fts3_tokenizer` reach beyond the database. `printf` and `format` pad a text to any width, which
takes seconds even if the text is too long in the end. The connection has no functions of its own."""
_COLUMNS = """
SELECT tables.name, columns.name, columns.type FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns
WHERE tables.type IN ('table', 'view') AND tables.name NOT GLOB 'sqlite_*' AND columns.hidden <> 1
ORDER BY tables.name, columns.cid
"""

Columns = Mapping[str, Sequence[tuple[str, str]]]
"""The names and types of columns by table."""


def read_columns(uri: str) -> Columns:
    """Return the columns of all tables and views of the database. Raises `sqlite3.Error`."""
    tables: dict[str, list[tuple[str, str]]] = {}
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        for table, column, kind in connection.execute(_COLUMNS):
            tables.setdefault(table, []).append((column, kind))
    return tables


def run_query(uri: str, only: Sequence[str] | None, most_rows: int, seconds: float, sql: str) -> dict[str, Any]:
    """Return the fields of `QueryRows` as JSON, or an `error` for the model. *only*: see `SqliteTables`."""
    until = time.monotonic() + seconds
    try:
        if only is not None:
            shown = {name: columns for name, columns in read_columns(uri).items() if name.casefold() in only}
            _check_names(shown, sql)
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            _fence(connection, schema=only is None)
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            return _read(connection.execute(sql), most_rows)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return {"error": _explained(str(error), seconds)}


def _fence(connection: sqlite3.Connection, *, schema: bool) -> None:
    """Allow nothing but reading; the tables of SQLite's own *schema* too, if it is True."""
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA temp_store = MEMORY")  # a large sort must not fill the disk
    connection.text_factory = lambda data: data.decode(errors="replace")
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)

    def authorize(action: int, first: str | None, second: str | None, _database: str | None, _view: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").casefold() not in _REFUSED_FUNCTIONS
        elif action == sqlite3.SQLITE_READ:
            allowed = schema or not (first or "").casefold().startswith("sqlite_")
        else:
            allowed = action in _HARMLESS
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def _check_names(shown: Columns, sql: str) -> None:
    """Raise `sqlite3.Error` unless *sql* compiles in a database that has nothing but the tables *shown*.

    An authorizer cannot decide this: it reports a common table expression like a view, and the query names it.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        for table, columns in shown.items():
            names = ", ".join([_quoted(name) for name, _ in columns])
            empty.execute(f"CREATE TABLE {_quoted(table)} ({names})")
        _fence(empty, schema=False)
        empty.execute(f"EXPLAIN {sql}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read(cursor: sqlite3.Cursor, most_rows: int) -> dict[str, Any]:
    columns = [column[0] for column in cursor.description or ()]
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        values = [_plain(value) for value in row]
        size += sum(len(value) if isinstance(value, str) else 8 for value in values)
        if len(rows) == most_rows or size > _LONGEST_ANSWER:
            return {"columns": columns, "rows": rows, "more": True}
        rows.append(values)
    return {"columns": columns, "rows": rows}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _explained(error: str, seconds: float) -> str:
    if error == "interrupted":
        return f"the query did not end within {seconds:g} s: read fewer rows, or aggregate"
    if "not authorized" in error or "prohibited" in error or "readonly" in error:
        return f"refused ({error}): use one SELECT over the tables of the schema"
    return f"{error}; empty `sql` shows the schema"
