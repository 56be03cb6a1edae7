"""Waiting conversations in any number: copies of the rows of real ones, made by SQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import sql

from concertino.storage.sql.rows import hash_key

_NUMBERS = {"number", "run", "root", "conversation", "leaf", "current", "parent", "ending", "outcome", "booking"}
"""The columns by which rows refer to each other. Those of a copy are shifted."""
_OWNERS = ("run", "root", "conversation")
"""The columns of a row that name its template, the first that it has."""
_SHARED = {"texts", "media", "accounts"}
"""Tables whose rows belong to a user: copies share them."""
_BATCH = 20_000


def multiply(url: str, copies: int, schema: str = "concertino") -> None:
    """Make *copies* of all conversations in the *schema* of the database at *url*, spread evenly."""
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        connection.execute("SET synchronous_commit TO off")
        connection.execute("""
            CREATE TEMP TABLE copies (
                run BIGINT, conversation BIGINT, shift BIGINT, old TEXT, new TEXT, id TEXT COLLATE "C", key BYTEA
            )
        """)
        templates = connection.execute("""
            SELECT r.number, t.conversation, r.run_id FROM runs AS r JOIN turns AS t ON t.run = r.number ORDER BY 1
        """).fetchall()
        tables = dict(_tables(connection))
        stride = 1 + max(_highest(connection, table, columns) for table, columns in tables.items())
        statements = [_copying(table, columns) for table, columns in tables.items()]
        for first in range(0, copies, _BATCH):
            connection.execute("TRUNCATE copies")
            with connection.cursor().copy("COPY copies FROM STDIN") as rows:
                for number in range(first, min(first + _BATCH, copies)):
                    run, conversation, run_id = templates[number % len(templates)]
                    name = f"copy-{number}"
                    shift = (number // len(templates) + 1) * stride
                    rows.write_row((run, conversation, shift, run_id, f"{run_id}c{number}", name, hash_key(name)))
            connection.execute("ANALYZE copies")
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        for table, columns in tables.items():
            for column in {"number", "booking"} & set(columns):
                names = {"name": sql.Literal(f"{schema}.{table}"), "table": sql.Identifier(table)}
                names |= {"text": sql.Literal(column), "column": sql.Identifier(column)}
                setting = "SELECT setval(pg_get_serial_sequence({name}, {text}), (SELECT max({column}) FROM {table}))"
                connection.execute(sql.SQL(setting).format(**names))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _tables(connection: psycopg.Connection) -> Iterator[tuple[str, dict[str, str]]]:
    """Give the tables with rows of conversations, and the type of each column."""
    found = connection.execute("""
        SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE table_schema = current_schema ORDER BY table_name, ordinal_position
    """)
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in found:
        tables.setdefault(table, {})[column] = kind
    for table, columns in tables.items():
        if table not in _SHARED and any(owner in columns for owner in _owners(table)):
            yield table, columns


def _owners(table: str) -> tuple[str, ...]:
    """Return the columns that may name the template of a row of *table*."""
    return ("number",) if table in ("runs", "conversations") else _OWNERS


def _highest(connection: psycopg.Connection, table: str, columns: dict[str, str]) -> int:
    """Return the highest number in a table."""
    numbers = [sql.SQL("max({})").format(sql.Identifier(column)) for column in _NUMBERS & set(columns)]
    row = connection.execute(sql.SQL("SELECT greatest(0, {}) FROM {}").format(
        sql.SQL(", ").join(numbers), sql.Identifier(table)
    )).fetchone()  # fmt: skip
    assert row is not None
    return int(row[0])


def _copying(table: str, columns: dict[str, str]) -> sql.Composed:
    """Return the statement that copies the rows of the templates in *table*."""
    owner = next(owner for owner in _owners(table) if owner in columns)
    template = "conversation" if table == "conversations" or owner == "conversation" else "run"
    values = [_value(table, column, kind) for column, kind in columns.items()]
    names = [sql.Identifier(column) for column in columns]
    return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} AS t JOIN copies AS c ON c.{} = t.{}").format(
        sql.Identifier(table), sql.SQL(", ").join(names), sql.SQL(", ").join(values), sql.Identifier(table),
        sql.Identifier(template), sql.Identifier(owner),
    )  # fmt: skip


def _value(table: str, column: str, kind: str) -> sql.Composable:
    """Return the value of a column in a copy."""
    name = sql.Identifier("t", column)
    if column in _NUMBERS:
        return sql.SQL("{} + c.shift").format(name)
    if column == "conversation_key":
        return sql.SQL("c.key")
    if column == "conversation_id" or (table, column) == ("conversations", "id"):
        return sql.SQL("c.id")
    if kind == "text":
        return sql.SQL("replace({}, c.old, c.new)").format(name)
    return name
