"""Ends of runs: by their own last entry, with their root, or by force without a replay."""

from __future__ import annotations

import sqlite3

from ...usage import Tokens, UsageRecord
from ..codec import storable
from ..types import Erased, RunEnd
from .budgets import charge_reserved
from .erasure import end_run, erase
from .operations import close_run
from .rows import to_operation, usage_row
from .statements import clock, hash_key, queries, transaction

_ORPHANED = "its root run has ended"
_ERASED = "its user was erased"
_UNSETTLED = "the run was ended before the attempt was settled; prompt as reserved, at most"


def end_tree(connection: sqlite3.Connection, run: int, root: int, end: RunEnd, now: float) -> bool:
    """End a run, and with a root all runs below it; inside a transaction. Return whether content was erased."""
    sql = queries()
    close_run(connection, run, root, now)
    _end_one(connection, run, end, now)
    if run == root:
        for below, erase_after in connection.execute(sql["open_below"], {"root": root}).fetchall():
            orphan = RunEnd(status="cancelled", answer="", error=_ORPHANED, ended=end.ended, erase_after=erase_after)
            _end_one(connection, below, orphan, now)
    erased = False
    for ended, erase_after in connection.execute(sql["ended_tree"], {"run": run, "root": root}).fetchall():
        end_run(connection, ended, now, erase_after)
        erased = erased or erase_after == 0
    return erased


def erase_by_force(connection: sqlite3.Connection, user_id: str, organization_id: str | None) -> Erased:
    """End a user's running trees as cancelled, then erase everything about the user."""
    bound = {"user_key": hash_key(user_id), "user_id": user_id, "organization_id": organization_id}
    with transaction(connection):
        now = clock()
        for root, erase_after in connection.execute(queries()["open_roots_of_user"], bound).fetchall():
            _book_unsettled(connection, root, now)
            # The epoch fences the process that may still work on the tree: its next append is refused.
            connection.execute(queries()["revoke"], (root,))
            end = RunEnd(status="cancelled", answer="", error=_ERASED, ended=now, erase_after=erase_after)
            end_tree(connection, root, root, end, now)
    return erase(connection, user_id, organization_id)


def _end_one(connection: sqlite3.Connection, run: int, end: RunEnd, now: float) -> None:
    error = None if end.error is None else storable(end.error)
    row = (storable(end.answer), error, end.ended, end.keep_seconds)
    number = connection.execute(queries()["add_end"], row).lastrowid
    bound = {"run": run, "status": end.status, "ending": number, "now": now, "erase_after": end.erase_after}
    connection.execute(queries()["end_head"], bound)


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
