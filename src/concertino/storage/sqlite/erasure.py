"""Erasure of content. Rows are blanked in their pages; schema.sql explains why."""

from __future__ import annotations

import sqlite3
from typing import Any

from ...errors import StorageError
from ...ids import user_account
from ...scope import Scope
from ...usage import Tokens, UsageRecord
from ..types import Erased, RunEnd
from .budgets import charge_reserved
from .connection import checkpoint, transaction
from .journal import end_tree, erase_content
from .rows import account_keys, hash_key, scope_key, to_operation, usage_row
from .statements import clock, queries

_ENDED = "its user was erased"
_UNSETTLED = "the run was ended before the attempt was settled; prompt as reserved, at most"
_OF_A_USER = ("forget_messages", "erase_content", "erase_texts_of_run", "forget_end")
_OF_A_USERS_RUN = (
    *("forget_waits", "forget_answers", "forget_commands", "erase_events"),
    "forget_log",  # the last events of a run that has just ended may be on their way
    "forget_run",
)


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


def erase(connection: sqlite3.Connection, user_id: str, organization_id: str | None, *, force: bool) -> Erased:
    """Erase everything about a user except the ledger. With *force*, end the user's running trees as cancelled first.

    Raises `StorageError` if a run has not ended.
    """
    sql = queries()
    user: dict[str, Any] = {"user_key": hash_key(user_id), "user_id": user_id, "organization_id": organization_id}
    if force:
        _end_trees(connection, user)
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
            key = account_keys([user_account(user_id, organization)])
            connection.execute(sql["forget_account"], key)
            connection.execute(sql["forget_reservations"], key)
    checkpoint(connection)
    return Erased(runs=len(rows), memories=memories)


def _end_trees(connection: sqlite3.Connection, user: dict[str, Any]) -> None:
    """End a user's running trees as cancelled, from their operations alone."""
    with transaction(connection):
        now = clock()
        for root, erase_after in connection.execute(queries()["open_roots_of_user"], user).fetchall():
            _book_unsettled(connection, root, now)
            # The epoch fences the process that may still work on the tree: its next append is refused.
            connection.execute(queries()["revoke"], (root,))
            end = RunEnd(status="cancelled", answer="", error=_ENDED, ended=now, erase_after=erase_after)
            end_tree(connection, root, root, end, now)


def _book_unsettled(connection: sqlite3.Connection, root: int, now: float) -> None:
    """Book the model attempts of a tree that were in flight as unknown, and charge what was reserved for them."""
    sql = queries()
    for row in connection.execute(sql["attempts_of_tree"], {"root": root}).fetchall():
        operation = to_operation(row)
        provider, _, model = operation.name.partition(":")
        record = UsageRecord(
            id=operation.key,
            run_id=operation.run_id,
            agent_path=row["agent_path"],
            provider=provider,
            model=model,
            tokens=Tokens(prompt=operation.prompt or 0),
            source="unknown",
            how=_UNSETTLED,
        )
        connection.execute(sql["add_usage"], (row["run"], None, *usage_row(record), now))
        charge_reserved(connection, operation.key)


def _forget_run(connection: sqlite3.Connection, run: int, organization_id: str) -> None:
    sql, bound = queries(), {"run": run, "scope_key": scope_key(Scope(organization_id))}
    for name in (*_OF_A_USER, *_OF_A_USERS_RUN):
        connection.execute(sql[name], bound)
    connection.execute(sql["plan_sweep"], {"run": run, "erase_at": None})


def _sweep_run(connection: sqlite3.Connection, run: int, erase_at: float | None, now: float) -> None:
    sql, bound = queries(), {"run": run, "now": now}
    over = erase_at is not None and erase_at <= now
    if over:
        erase_content(connection, run)
    connection.execute(sql["expire_messages"], bound)
    if connection.execute(sql["expire_end"], bound).fetchall():
        connection.execute(sql["expire_task"], bound)
    connection.execute(sql["plan_sweep"], {"run": run, "erase_at": None if over else erase_at})
