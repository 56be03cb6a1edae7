"""Waits and their outcomes, the commands to runs, and which trees should be taken up."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Sequence

from ...errors import RunEndedError, UnknownRunError, UnknownWaitError
from ...waits import Resolution, Wait
from ..codec import storable
from ..types import Command, CommandKind, Due
from .claims import is_free
from .journal import standing
from .rows import answer_row, to_wait
from .schema import queries, transaction


def waits(
    connection: sqlite3.Connection, root_id: str | None, run_id: str | None, only_open: bool, limit: int
) -> tuple[Wait, ...]:
    """Waits, the oldest first."""
    conditions = ["w.open" if only_open else "true"]
    if root_id is not None:
        conditions.append(
            "w.run IN (SELECT number FROM runs WHERE root = (SELECT number FROM runs WHERE run_id = :root_id))"
        )
    if run_id is not None:
        conditions.append("w.run = (SELECT number FROM runs WHERE run_id = :run_id)")
    bound = {"root_id": root_id, "run_id": run_id, "limit": max(limit, 0)}
    sql = queries()["waits"].replace("/*conditions*/", " AND ".join(conditions))
    return tuple(to_wait(row) for row in connection.execute(sql, bound).fetchall())


def wait(connection: sqlite3.Connection, key: str) -> Wait | None:
    """One wait, also where its outcome came first."""
    sql = queries()["waits"].replace("/*conditions*/", "w.key = :key")
    row = connection.execute(sql, {"key": key, "limit": 1}).fetchone()
    if row is None:
        row = connection.execute(queries()["early_answer"], (key,)).fetchone()
    return None if row is None else to_wait(row)


def resolve(connection: sqlite3.Connection, key: str, resolution: Resolution, run_id: str | None) -> Wait:
    """Answer a wait, if nobody has yet. The unique key of the answers makes one of them the first."""
    sql = queries()
    with transaction(connection):
        _expire(connection)  # an answer that comes too late is none
        found = connection.execute(sql["wait_run"], (key,)).fetchone()
        run = _early(connection, key, run_id) if found is None else found[0]
        if run is not None:
            connection.execute(sql["answer"], answer_row(key, run, resolution, time.time()))
            connection.execute(sql["close_wait"], (key,))
        stands = wait(connection, key)
    assert stands is not None, "it was answered just now, or before"
    return stands


def _early(connection: sqlite3.Connection, key: str, run_id: str | None) -> int | None:
    """The run whose call may be answered before it waits; None if it was answered already."""
    if connection.execute(queries()["early_answer"], (key,)).fetchone() is not None:
        return None
    if run_id is None:
        raise UnknownWaitError(f"no call waits under the key {key!r}")
    try:
        row = standing(connection, run_id)
    except UnknownRunError as error:
        raise UnknownWaitError(f"no call waits under the key {key!r}, and run {run_id!r} was never begun") from error
    if row["ending"] is not None:
        raise UnknownWaitError(f"no call waits under the key {key!r}, and run {run_id!r} has ended")
    return int(row["number"])


def due(connection: sqlite3.Connection, limit: int, agents: Collection[str] | None = None) -> Due:
    """Expire what is overdue, and find the trees that should be taken up."""
    sql, now = queries(), time.time()
    with transaction(connection):
        expired = _expire(connection)
    return Due(
        expired=expired,
        ready=_free(connection, "suspended", limit, now, agents),
        orphaned=_free(connection, "running", limit, now, agents),
        stopping=tuple(row[0] for row in connection.execute(sql["stopping"]).fetchall()),
    )


def _expire(connection: sqlite3.Connection) -> int:
    bound = {"now": time.time()}
    connection.execute(queries()["answer_overdue"], bound)
    return connection.execute(queries()["close_overdue"], bound).rowcount


def _free(
    connection: sqlite3.Connection, state: str, limit: int, now: float, agents: Collection[str] | None
) -> tuple[str, ...]:
    found: list[str] = []
    for run_id, agent, owner, lease, ready in connection.execute(queries()["trees"], {"state": state}).fetchall():
        if len(found) >= limit:
            break
        if agents is not None and agent not in agents:
            continue
        if (ready or state == "running") and is_free(owner, lease, now):
            found.append(run_id)
    return tuple(found)


def send(connection: sqlite3.Connection, run_id: str, kind: CommandKind, text: str, by: str) -> None:
    """Leave a command for whoever runs *run_id*."""
    with transaction(connection):
        found = connection.execute(queries()["command"], {"run_id": run_id, "stop": kind == "stop"}).fetchall()
        if not found:
            standing(connection, run_id)
            raise RunEndedError(f"run {run_id!r} has ended: nothing can be sent to it")
        ((run, number),) = found
        connection.execute(queries()["add_command"], (run, number, kind, storable(text), by, time.time()))


def commands(connection: sqlite3.Connection, run_id: str, after: int) -> Sequence[Command]:
    """The commands to *run_id* after number *after*."""
    rows = connection.execute(queries()["commands"], (run_id, after)).fetchall()
    return tuple(Command(number=row[0], kind=row[1], text=row[2], by=row[3], at=row[4]) for row in rows)
