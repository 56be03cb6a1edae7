"""The table of open operations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import StorageError
from ...operations import Operation
from ...scope import Scope
from ..codec import encode_json
from ..types import Entry
from .rows import operation_row, to_operation
from .statements import queries, scope_key, scope_row

_CONDITIONS = {
    "root_id": "o.root = (SELECT number FROM runs WHERE run_id = :root_id)",
    "run_id": "r.run_id = :run_id",
}
FROM_OUTSIDE = ("approval", "result")
"""Kinds of waits that an answer from outside ends."""


class Put(NamedTuple):
    """An operation to insert or update, encoded."""

    key: str
    run_id: str
    scope_key: int
    state: str
    row: tuple[Any, ...]
    outcome: str | None


class Changes(NamedTuple):
    """An entry's changes to the table, encoded."""

    put: list[Put]
    closed: Sequence[str]


def encode_changes(entry: Entry) -> Changes:
    """Return the operations that *entry* changes, as the statements take them."""
    return Changes([_encode(operation) for operation in entry.operations], entry.closed)


def change_operations(connection: sqlite3.Connection, run: int, root: int, changes: Changes, now: float) -> None:
    """Insert, update and close operations, inside a transaction."""
    for put in changes.put:
        _put(connection, root, put, now)
    for key in changes.closed:
        _close(connection, run, root, key, now)


def close_run(connection: sqlite3.Connection, run: int, root: int, now: float) -> None:
    """Cancel the waits of a run that ends, and close its operations; for a root those of its tree."""
    sql, bound = queries(), {"run": run, "root": root, "now": now}
    connection.execute(sql["answer_ended"], bound)
    for (outcome,) in connection.execute(sql["close_run"], bound).fetchall():
        _erase_outcome(connection, outcome)


def operations(
    connection: sqlite3.Connection, scope: Scope, root_id: str | None, run_id: str | None
) -> tuple[Operation, ...]:
    """Return the operations of *scope* that match, ordered by step, index and key."""
    wanted = {"root_id": root_id, "run_id": run_id}
    conditions = " AND ".join(_CONDITIONS[name] for name, value in wanted.items() if value is not None) or "true"
    sql = queries()["operations"].replace("/*conditions*/", conditions)
    rows = connection.execute(sql, {**scope_row(scope), **wanted}).fetchall()
    return tuple(to_operation(row) for row in rows)


def _encode(operation: Operation) -> Put:
    outcome = None if operation.outcome is None else encode_json(operation.outcome)
    row = operation_row(operation)
    return Put(operation.key, operation.run_id, scope_key(operation.scope), operation.state, row, outcome)


def _put(connection: sqlite3.Connection, root: int, put: Put, now: float) -> None:
    sql, number = queries(), None
    if put.outcome is not None:
        for (before,) in connection.execute(sql["replaced_outcome"], (put.scope_key, put.key, put.state)).fetchall():
            _erase_outcome(connection, before)
        number = connection.execute(sql["add_outcome"], (put.outcome,)).lastrowid
    row = (put.key, *put.row, number, put.run_id, root, put.scope_key)
    found = connection.execute(sql["put_operation"], row).fetchall()
    if not found:
        raise StorageError(
            f"operation {put.key!r} does not fit run {put.run_id!r}: use a run of the entry's tree, "
            "the scope of that run, and a key that no other run of the scope uses"
        )
    state, answered, waited_for, stored = found[0]
    if number is not None and stored != number:
        _erase_outcome(connection, number)  # the first outcome counts
    if waited_for in FROM_OUTSIDE and state != "waiting" and not answered:
        connection.execute(sql["cancel_wait"], {"key": put.key, "now": now})


def _close(connection: sqlite3.Connection, run: int, root: int, key: str, now: float) -> None:
    sql = queries()
    for waited_for, outcome in connection.execute(sql["close_operation"], (run, key, root)).fetchall():
        _erase_outcome(connection, outcome)
        if waited_for in FROM_OUTSIDE:
            connection.execute(sql["cancel_wait"], {"key": key, "now": now})


def _erase_outcome(connection: sqlite3.Connection, number: int | None) -> None:
    if number is not None:
        connection.execute(queries()["erase_outcome"], (number,))
