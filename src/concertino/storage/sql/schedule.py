"""When trees are due: the index that the watchdog scans, postponements, and dead letters."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import ConfigurationError, RunClaimedError, RunEndedError, RunStateError, UnknownRunError
from ...operations import transition
from ...scope import AnyScope, Operator
from ..call_store import Consumer
from ..codec import encode_json
from ..process import process_of
from ..types import Due
from .session import Row, Session
from .statements import most, scoped


def due(
    connection: Session,
    scope: Operator,
    limit: int,
    agents: Collection[str] | None,
    owner: str,
    consumer: Consumer | None,
) -> Due:
    """Expire overdue waits, and return the trees to resume, the longest due first."""
    check_operator(scope)
    sql, now = connection.queries, connection.now()
    expired = 0
    if not connection.read_only and (is_overdue(connection, now) or connection.dead_processes()):
        with connection.transaction():
            expired = end_overdue(connection, now)
    ready: list[str] = []
    orphaned: list[str] = []
    left: list[str] = []
    bound = {"now": now, "agents": named_agents(agents), "limit": most(limit), "process": process_of(owner)}
    for run_id, state, doubtful in connection.execute(sql["ready"], bound).fetchall():
        (orphaned if state == "running" else ready).append(run_id)
        if doubtful:
            left.append(run_id)
    if left and not connection.read_only:
        bound = {"roots": encode_json(left), "now": now, "consumer": consumer.owner if consumer else ""}
        free = {row[0] for row in connection.execute(sql["free_roots"], bound).fetchall()}
        left = [run_id for run_id in left if run_id in free]
    stopping = tuple(row[0] for row in connection.execute(sql["stopping"]).fetchall())
    return Due(expired=expired, ready=tuple(ready), orphaned=tuple(orphaned), stopping=stopping, doubtful=tuple(left))


def expire(connection: Session, now: float) -> int:
    """Answer overdue waits as expired, inside a transaction. Return their number."""
    sql, bound = connection.queries, {"now": now, "state": transition("waiting", "expire")}
    connection.execute(sql["answer_overdue"], bound)
    roots = [row[0] for row in connection.execute(sql["expire_operations"], bound).fetchall()]
    for root in dict.fromkeys(roots):
        reschedule(connection, root, now)
    return len(roots)


def reschedule(connection: Session, root: int, now: float) -> None:
    """Set when a tree is due, after its state, claim or operations changed; inside a transaction."""
    connection.execute(connection.queries["reschedule"], {"root": root, "now": now})


def postpone(connection: Session, scope: AnyScope, root_id: str, reason: str, seconds: float | None) -> None:
    """Postpone a tree, or make it a dead letter."""
    now = connection.now()
    row = _root(connection, scope, root_id)
    if row["owner"] != "" and row["lease"] > now and not connection.is_dead(row["owner"]):
        raise RunClaimedError(
            f"run {root_id!r} is claimed by {row['owner']!r}: release the claim before postponing it", row["owner"]
        )
    bound = {
        "root": row["number"],
        "reason": reason,
        "until": now + (seconds or 0.0),
        "state": "dead_letter" if seconds is None else None,
    }
    connection.execute(connection.queries["postpone"], bound)
    reschedule(connection, row["number"], now)


def retry(connection: Session, scope: AnyScope, root_id: str) -> None:
    """Make a dead letter due at once."""
    row = _root(connection, scope, root_id)
    if row["state"] != "dead_letter":
        raise RunStateError(f"run {root_id!r} is {row['state']!r}: only a dead letter can be retried")
    connection.execute(connection.queries["retry"], {"root": row["number"]})
    reschedule(connection, row["number"], connection.now())


def named_agents(agents: Collection[str] | None) -> str | None:
    """Return *agents* as the parameter of a statement; None: all."""
    return None if agents is None else encode_json(list(dict.fromkeys(agents)))


def is_consumer(connection: Session, consumer: Consumer | None, now: float) -> bool:
    """Return whether *consumer* still has its targets, which it then keeps until the end of the transaction."""
    if consumer is None:
        return True
    bound = {"targets": encode_json(list(consumer.targets)), "owner": consumer.owner, "now": now}
    return len(connection.execute(connection.queries["held_targets"], bound).fetchall()) == len(consumer.targets)


def check_operator(scope: Operator) -> None:
    """Raise `ConfigurationError` unless *scope* is an operator's: the work is on all tenants at once."""
    if not isinstance(scope, Operator):
        raise ConfigurationError(f"only the operator may look after all runs, not {scope!r:.80}: use OPERATOR")


def end_overdue(connection: Session, now: float) -> int:
    """End the leases of dead processes, and expire waits, inside a transaction. Return the number of the latter."""
    for process in connection.dead_processes():
        _end_leases(connection, process, now)
    if not is_overdue(connection, now):
        return 0
    connection.lock("lock_overdue", {"now": now})
    return expire(connection, now)


def is_overdue(connection: Session, now: float) -> bool:
    """Return whether a wait is overdue: else no write lock is needed."""
    return connection.execute(connection.queries["has_overdue"], {"now": now}).fetchone() is not None


def _root(connection: Session, scope: AnyScope, root_id: str) -> Row:
    sql, bound = scoped(connection, "root", scope)
    row: Row | None = connection.execute(sql, {**bound, "run_id": root_id}).fetchone()
    if row is None:
        raise UnknownRunError(f"unknown root run {root_id!r}")
    if row["ending"] is not None:
        raise RunEndedError(f"run {root_id!r} has ended")
    return row


def _end_leases(connection: Session, process: str, now: float) -> None:
    bound = {"process": process, "now": now}
    for (root,) in connection.execute(connection.queries["end_leases"], bound).fetchall():
        reschedule(connection, root, now)
