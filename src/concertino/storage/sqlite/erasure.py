"""Erasure of content. Rows are blanked in their pages; schema.sql explains why."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from ...errors import StorageError
from ...scope import Scope
from ..accounts import user_account
from ..types import Erased
from .statements import account_key, clock, hash_key, queries, scope_key, transaction

PATIENCE = 250
"""Milliseconds to wait for a reader that blocks the truncation of the write-ahead log; the next sweep tries again."""

_OF_A_RUN = (
    "erase_messages",
    "erase_content",
    "erase_waits",
    "erase_answers",
    "erase_commands",
    "erase_texts_of_run",
)
_OF_A_USER = ("forget_messages", "erase_content", "erase_texts_of_run", "forget_end")
_OF_A_USERS_RUN = ("forget_waits", "forget_answers", "forget_commands", "forget_run")


def end_run(connection: sqlite3.Connection, run: int, now: float, after: float | None) -> None:
    """Erase what a run's end erases at once, and plan the rest; inside a transaction."""
    if after is not None and after <= 0:
        _blank(connection, run)
        after = None
    _plan(connection, run, None if after is None else now + after)


def sweep(connection: sqlite3.Connection) -> int:
    """Erase content whose time is over. Return the number of runs it was erased from."""
    sql, now = queries(), clock()
    rows = connection.execute(sql["due_to_sweep"], {"now": now}).fetchall()
    if rows:  # else the write lock is not needed
        with transaction(connection):
            rows = connection.execute(sql["due_to_sweep"], {"now": now}).fetchall()
            for run, erase_at in rows:
                _sweep_run(connection, run, erase_at, now)
    # Also if nothing was due: a reader may have blocked the last one.
    checkpoint(connection)
    return len(rows)


def erase(connection: sqlite3.Connection, user_id: str, organization_id: str | None) -> Erased:
    """Erase everything about a user except the ledger. Raises `StorageError` if a run has not ended."""
    sql = queries()
    user: dict[str, Any] = {"user_key": hash_key(user_id), "user_id": user_id, "organization_id": organization_id}
    with transaction(connection):
        rows = connection.execute(sql["runs_of_user"], user).fetchall()
        for row in rows:
            if not row["ended"]:
                raise StorageError(
                    f"run {row['run_id']!r} of user {user_id!r} has not ended: stop it first, or erase with force"
                )
        for row in rows:
            _forget_run(connection, row["number"], row["organization_id"])
        for name in ("forget_texts", "forget_answerer", "forget_sender"):
            connection.execute(sql[name], user)
        memories = connection.execute(sql["forget_memories"], user).rowcount
        if memories:
            # The index's segments keep the words of deleted rows: build a new one, and let SQLite overwrite the old.
            for name in ("words_new", "words_copy", "words_drop", "words_rename"):
                connection.execute(sql[name])
        organizations: set[str] = {row["organization_id"] for row in rows}
        if organization_id is not None:
            organizations.add(organization_id)
        for organization in organizations:
            key = (account_key(user_account(user_id, organization)),)
            connection.execute(sql["forget_account"], key)
            connection.execute(sql["forget_reservations"], key)
    checkpoint(connection)
    return Erased(runs=len(rows), memories=memories)


def checkpoint(connection: sqlite3.Connection) -> None:
    """Truncate the write-ahead log, which still contains erased content. If a reader blocks it, the log stays."""
    with suppress(sqlite3.Error):
        patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        connection.execute(f"PRAGMA busy_timeout = {min(patience, PATIENCE)}")
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")


def _forget_run(connection: sqlite3.Connection, run: int, organization_id: str) -> None:
    sql, bound = queries(), {"run": run, "scope_key": scope_key(Scope(organization_id))}
    for name in (*_OF_A_USER, *_OF_A_USERS_RUN):
        connection.execute(sql[name], bound)
    connection.execute(sql["plan_sweep"], {"run": run, "erase_at": None, "sweep_at": None})


def _sweep_run(connection: sqlite3.Connection, run: int, erase_at: float | None, now: float) -> None:
    sql, bound = queries(), {"run": run, "now": now}
    over = erase_at is not None and erase_at <= now
    if over:
        _blank(connection, run)
    connection.execute(sql["expire_messages"], bound)
    if connection.execute(sql["expire_end"], bound).fetchall():
        connection.execute(sql["expire_task"], bound)
    _plan(connection, run, None if over else erase_at)


def _blank(connection: sqlite3.Connection, run: int) -> None:
    for name in _OF_A_RUN:
        connection.execute(queries()[name], {"run": run})


def _plan(connection: sqlite3.Connection, run: int, erase_at: float | None) -> None:
    """Set the time of the next erasure in *run*."""
    (expiry,) = connection.execute(queries()["next_expiry"], {"run": run}).fetchone()
    times = [moment for moment in (erase_at, expiry) if moment is not None]
    bound = {"run": run, "erase_at": erase_at, "sweep_at": min(times, default=None)}
    connection.execute(queries()["plan_sweep"], bound)
