"""The table of open operations."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from ...errors import StorageError
from ...operations import Operation
from ...scope import Scope
from ..codec import encode_json
from ..types import Entry
from .rows import operation_row, to_operation
from .statements import queries, scope_row

_CONDITIONS = {
    "root_id": "o.root = (SELECT number FROM runs WHERE run_id = :root_id)",
    "run_id": "r.run_id = :run_id",
}
FROM_OUTSIDE = ("approval", "result")
"""Kinds of waits that an answer from outside ends."""


@dataclass(frozen=True, slots=True)
class Changes:
    """An entry's changes to the table, encoded."""

    put: list[tuple[dict[str, Any], str | None]]
    """Parameters of `put_operation`, and the outcome."""
    closed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.put or self.closed)


def encode_changes(entry: Entry) -> Changes:
    """Return the operations that *entry* changes, as the statements take them."""
    return Changes([(operation_row(each), _outcome(each)) for each in entry.operations], tuple(entry.closed))


def change_operations(connection: sqlite3.Connection, run: int, root: int, changes: Changes, now: float) -> None:
    """Insert, update and close operations, inside a transaction."""
    for row, outcome in changes.put:
        _put(connection, root, row, outcome, now)
    for key in changes.closed:
        _close(connection, {"run": run, "root": root, "key": key}, now)


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


def _outcome(operation: Operation) -> str | None:
    return None if operation.outcome is None else encode_json(operation.outcome)


def _put(connection: sqlite3.Connection, root: int, row: dict[str, Any], outcome: str | None, now: float) -> None:
    sql, number = queries(), None
    if outcome is not None:
        for (before,) in connection.execute(sql["outcome_of_unknown"], (row["scope_key"], row["key"])).fetchall():
            _erase_outcome(connection, before)
        number = connection.execute(sql["add_outcome"], (outcome,)).lastrowid
    found = connection.execute(sql["put_operation"], {**row, "root": root, "outcome": number}).fetchall()
    if not found:
        raise StorageError(
            f"operation {row['key']!r} does not fit run {row['run_id']!r}: use a run of the entry's tree, "
            "the scope of that run, and a key that no other run of the scope uses"
        )
    state, answered, waited_for, stored = found[0]
    if number is not None and stored != number:
        _erase_outcome(connection, number)  # the first outcome counts
    if waited_for in FROM_OUTSIDE and state != "waiting" and not answered:
        connection.execute(sql["cancel_wait"], {"key": row["key"], "now": now})


def _close(connection: sqlite3.Connection, bound: dict[str, Any], now: float) -> None:
    for _, waited_for, outcome in connection.execute(queries()["close_operation"], bound).fetchall():
        _erase_outcome(connection, outcome)
        if waited_for in FROM_OUTSIDE:
            connection.execute(queries()["cancel_wait"], {**bound, "now": now})


def _erase_outcome(connection: sqlite3.Connection, number: int | None) -> None:
    if number is not None:
        connection.execute(queries()["erase_outcome"], (number,))
