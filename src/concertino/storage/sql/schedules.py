"""Schedules: their content, which never moves, and their heads with the time at which each is due."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...scope import AnyScope, Operator, Scope
from ..codec import decode_json, encode_json
from ..schedule_types import Schedule
from .rows import scope_row
from .schedule import check_operator, named_agents
from .sealing import seal
from .session import Row, Session
from .statements import most, scoped

_SETTINGS = ("input", "conversation_id", "cron", "at", "zone", "missed", "most")


def add_schedule(connection: Session, scope: Scope, schedule: Schedule) -> bool:
    """Store a schedule of *scope*. Return False, and change nothing, if it has one of that id."""
    body = encode_json({name: getattr(schedule, name) for name in _SETTINGS})
    bound = {**scope_row(scope), "id": schedule.id, "agent": schedule.agent, "now": connection.now()}
    if connection.sealer is not None:
        connection.sealer.prepare([("user", scope.key)])
    bound["body"] = seal(connection, body, "user", scope.key)
    if connection.execute(*_of_id(connection, "schedule", scope, schedule.id)).fetchone() is not None:
        return False
    number = connection.execute(connection.queries["add_schedule"], bound).lastrowid
    connection.execute(connection.queries["add_schedule_head"], {"schedule": number, "due_at": schedule.due_at})
    return True


def schedules(connection: Session, scope: AnyScope, limit: int) -> Sequence[Schedule]:
    """Return the schedules that *scope* reaches, the oldest first."""
    sql, bound = scoped(connection, "schedules", scope)
    return tuple(_to_schedule(row) for row in connection.execute(sql, {**bound, "limit": most(limit)}).fetchall())


def schedule(connection: Session, scope: AnyScope, schedule_id: str) -> Schedule | None:
    """Return one schedule, or None."""
    row = connection.execute(*_of_id(connection, "schedule", scope, schedule_id)).fetchone()
    return None if row is None else _to_schedule(row)


def due_schedules(
    connection: Session, scope: Operator, limit: int, agents: Collection[str] | None
) -> tuple[float, Sequence[Schedule]]:
    """Return the store's time, and the schedules that are due, the longest due first."""
    check_operator(scope)
    now = connection.now()
    bound = {"now": now, "agents": named_agents(agents), "limit": most(limit)}
    rows = connection.execute(connection.queries["due_schedules"], bound).fetchall()
    return now, tuple(_to_schedule(row) for row in rows)


def move_schedule(
    connection: Session, scope: AnyScope, schedule_id: str, due_at: float | None, since: float | None
) -> bool:
    """Set when a schedule is due, if it is due at *since* now. Return whether it was."""
    sql, bound = _of_id(connection, "move_schedule", scope, schedule_id)
    return connection.execute(sql, {**bound, "due_at": due_at, "since": since}).rowcount == 1


def delete_schedule(connection: Session, scope: AnyScope, schedule_id: str) -> bool:
    """Erase a schedule. Return whether there was one."""
    connection.execute(*_of_id(connection, "delete_schedule_head", scope, schedule_id))
    return connection.execute(*_of_id(connection, "forget_schedule", scope, schedule_id)).rowcount == 1


def forget_schedules(connection: Session, scope: AnyScope) -> None:
    """Erase all schedules that *scope* reaches; inside a transaction."""
    connection.execute(*scoped(connection, "delete_schedule_heads", scope))
    connection.execute(*scoped(connection, "forget_schedules", scope))


def _of_id(connection: Session, name: str, scope: AnyScope, schedule_id: str) -> tuple[str, dict[str, object]]:
    sql, bound = scoped(connection, name, scope)
    return sql, {**bound, "id": schedule_id}


def _to_schedule(row: Row) -> Schedule:
    settings = decode_json(row["body"], dict)
    return Schedule(
        id=row["id"],
        tenant=row["tenant"],
        user=row["user_id"],
        agent=row["agent"],
        due_at=row["due_at"],
        **settings,
    )
