"""Waits and their answers, and the commands to runs."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import RunEndedError, StorageError, UnknownRunError, UnknownWaitError
from ...operations import OperationEvent, transition
from ...scope import AnyScope, Scope
from ...waits import Resolution, Verdict, Wait
from ..codec import storable
from ..types import Command, CommandKind, Entry
from .approval_rules import remember_approval
from .rows import answer_row, to_wait, wait_row
from .schedule import expire, is_overdue, reschedule
from .sealing import run_of, seal
from .session import Cursor, Row, Session
from .statements import most, scoped

FROM_OUTSIDE = ("approval", "result")
"""Kinds of waits that an answer from outside ends."""
_AFTER = "(w.opened, w.key) > (:opened, :after)"
"""The waits of the next page: the caller has its position, so that no key of another scope is ever looked up."""
_EVENTS: dict[Verdict, OperationEvent] = {
    "approved": "approve",
    "denied": "deny",
    "result": "resolve",
    "failed": "fail",
    "expired": "expire",
    "cancelled": "cancel",
}


def open_waits(connection: Session, run: int, entry: Entry, now: float) -> None:
    """Open the waits of *entry*, inside its transaction. Each needs an operation of the same key."""
    sql = connection.queries
    for wait in entry.waits:
        if wait.run_id != entry.run_id:
            raise StorageError(f"wait {wait.key!r} belongs to run {wait.run_id!r}, not to {entry.run_id!r}")
        row = {**wait_row(wait, now), "run": run}
        for name in ("arguments", "arguments_hash", "note", "task"):
            row[name] = seal(connection, row[name], "content", wait.run_id)
        state = connection.execute(sql["operation_state"], row).fetchone()
        if state is None:
            raise StorageError(f"wait {wait.key!r} has no operation: add it to the entry in state 'waiting'")
        opened = connection.execute(sql["open_wait"], row).fetchall()
        verdict = connection.execute(sql["verdict"], (wait.key, wait.kind)).fetchone()
        if state[0] != "waiting":
            connection.execute(sql["cancel_wait"], {"key": wait.key, "now": now})  # unless it was answered early
        elif verdict is not None:  # opened again: the first answer counts
            row |= {"state": transition("waiting", _EVENTS[verdict[0]]), "scope_key": state[1]}
            connection.execute(sql["answer_operation"], row)
        elif opened:
            connection.execute(sql["set_deadline"], row)


def waits(
    connection: Session,
    scope: AnyScope,
    root_id: str | None,
    run_id: str | None,
    only_open: bool,
    limit: int,
    after: Wait | None,
) -> tuple[Wait, ...]:
    """Return waits, the oldest first."""
    asked = ask_waits(connection, scope, root_id, run_id, only_open=only_open, limit=limit, after=after)
    return tuple(map(to_wait, asked.fetchall()))


def ask_waits(
    connection: Session,
    scope: AnyScope,
    root_id: str | None,
    run_id: str | None,
    *,
    only_open: bool,
    limit: int,
    after: Wait | None,
) -> Cursor:
    """Send the query of `waits`."""
    conditions = [_AFTER if after is not None else "true"]
    if root_id is not None:
        conditions.append(
            "w.run IN (SELECT number FROM runs WHERE root = (SELECT number FROM runs WHERE run_id = :root_id))"
        )
    if run_id is not None:
        conditions.append("w.run = (SELECT number FROM runs WHERE run_id = :run_id)")
    sql, bound = scoped(connection, "open_waits" if only_open else "waits", scope)
    bound |= {"root_id": root_id, "run_id": run_id, "limit": most(limit), **_position(after)}
    return connection.execute(sql.replace("/*conditions*/", " AND ".join(conditions)), bound)


def approvals(connection: Session, scope: AnyScope, limit: int, after: Wait | None) -> tuple[Wait, ...]:
    """Return the open approvals that *scope* may answer, the oldest first."""
    sql, bound = scoped(connection, "open_approvals", scope)
    # The people that a call names may answer it without owning the run, in the same tenant.
    named_in = scope.tenant if isinstance(scope, Scope) and scope.user else None
    bound |= {"by": scope.by, "named_in": named_in, "limit": most(limit), **_position(after)}
    sql = sql.replace("/*conditions*/", _AFTER if after is not None else "true")
    return tuple(to_wait(row) for row in connection.execute(sql, bound).fetchall())


def _position(after: Wait | None) -> dict[str, object]:
    return {} if after is None else {"opened": after.opened, "after": after.key}


def wait(connection: Session, scope: AnyScope, key: str) -> Wait | None:
    """Return the last wait of a call, or its early answer."""
    row = _ask_wait(connection, scope, key).fetchone()
    return None if row is None else to_wait(row)


def _ask_wait(connection: Session, scope: AnyScope, key: str) -> Cursor:
    sql, bound = scoped(connection, "wait", scope)
    return connection.execute(sql, {**bound, "key": key})


def resolve(connection: Session, scope: AnyScope, key: str, resolution: Resolution, run_id: str | None) -> Wait:
    """Answer a wait unless it has an answer, and return it with the answer that counts."""
    now = connection.now()
    with connection.batched():
        connection.lock("lock_wait", {"key": key, "run_id": run_id, "now": now})
        if is_overdue(connection, now):
            expire(connection, now)  # an answer after the deadline does not count
        operation = _answerable(connection, scope, key, resolution.verdict, run_id)
        if operation is not None:
            if resolution.verdict == "approved" and resolution.remember != "once":
                remember_approval(connection, key, resolution.remember)
            answer_operation(connection, operation, resolution, now)
        found = _ask_wait(connection, scope, key)
    row = found.fetchone()
    if row is None:
        raise UnknownWaitError(
            f"no call waits under the key {key!r}, and none may be answered before it waits: check the key"
        )
    return to_wait(row)


def send(connection: Session, scope: AnyScope, run_id: str, kind: CommandKind, text: str) -> None:
    """Add a command to *run_id*. A stop makes the tree due."""
    sql, now = connection.queries, connection.now()
    connection.lock("lock_tree", {"run_id": run_id})
    command, bound = scoped(connection, "command", scope)
    found = connection.execute(command, {**bound, "run_id": run_id, "stop": kind == "stop"}).fetchall()
    if not found:
        _check_known(connection, scope, run_id)
        raise RunEndedError(f"run {run_id!r} has ended: it takes no more commands")
    ((run, root, number),) = found
    text = seal(connection, storable(text), "content", run_id)
    connection.execute(sql["add_command"], (run, number, kind, text, scope.by, now))
    if kind == "stop":
        connection.execute(sql["stop_now"], {"root": root, "now": now})


def commands(connection: Session, scope: AnyScope, run_id: str, after: int) -> Sequence[Command]:
    """Return the commands to *run_id* after number *after*."""
    sql, bound = scoped(connection, "commands", scope)
    rows = connection.execute(sql, {**bound, "run_id": run_id, "after": after}).fetchall()
    return tuple(Command(number=row[0], kind=row[1], text=row[2], by=row[3], at=row[4]) for row in rows)


def _answerable(connection: Session, scope: AnyScope, key: str, verdict: Verdict, run_id: str | None) -> Row | None:
    """Return the operation that *verdict* may answer now."""
    sql, bound = scoped(connection, "operation_of_wait", scope)
    row: Row | None = connection.execute(sql, {**bound, "key": key}).fetchone()
    if row is not None and row["state"] == "waiting" and row["waits_for"] in FROM_OUTSIDE:
        return row
    if run_id is None or verdict not in ("result", "failed"):
        return None
    # Before the call waits: only a call that was declared as remote, and that may have handed out its key already.
    sql, bound = scoped(connection, "operation_of_run", scope)
    row = connection.execute(sql, {**bound, "key": key, "run_id": run_id}).fetchone()
    return row if row is not None and row["state"] == "running" and row["remote"] else None


def answer_operation(connection: Session, operation: Row, resolution: Resolution, now: float) -> None:
    """Record the answer to a call, and let its tree be due if it has all answers; inside a transaction."""
    sql, key = connection.queries, operation["key"]
    state = transition(operation["state"], _EVENTS[resolution.verdict])
    kind = operation["waits_for"] if operation["state"] == "waiting" else "result"
    bound = {"scope_key": operation["scope_key"], "key": key, "state": state}
    row = answer_row(key, kind, operation["run"], resolution, now)
    if connection.sealer is not None:
        *known, content, arguments = row
        name = run_of(connection, operation["run"])
        row = (*known, *(each and connection.sealer.seal(each, "content", name) for each in (content, arguments)))
    connection.execute(sql["answer"], row)
    connection.execute(sql["answer_operation"], bound)
    reschedule(connection, operation["root"], now)


def _check_known(connection: Session, scope: AnyScope, run_id: str) -> None:
    sql, bound = scoped(connection, "run_number", scope)
    if connection.execute(sql, {**bound, "run_id": run_id}).fetchone() is None:
        raise UnknownRunError(f"unknown run {run_id!r}")
