"""Calls whose work the processes of a target do: which process takes one, and the run that answers it."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import RunEndedError
from ...scope import Operator, Scope
from ...waits import Resolution
from ..call_store import Consumer
from ..codec import decode_json
from ..types import ClaimedCall, RunStart
from .approvals import answer_operation
from .rows import scope_key, to_wait
from .schedule import check_operator, is_consumer, named_agents
from .session import Session
from .statements import most

_APART = 1e-6
"""Seconds between the times at which calls that are taken together are due again: they keep their order."""


def claim_calls(
    connection: Session,
    scope: Operator,
    seconds: float,
    limit: int,
    targets: Collection[str] | None,
    consumer: Consumer | None,
    overdue: float,
) -> tuple[ClaimedCall, ...]:
    """Take calls of *targets* that are due, for *seconds*: after them, another process may take a call again."""
    check_operator(scope)
    sql, now = connection.queries, connection.now()
    due = now - overdue
    if connection.read_only or connection.execute(sql["has_due_call"], {"now": due}).fetchone() is None:
        return ()  # the write lock is not needed
    bound = {
        "due": due,
        "now": now,
        "targets": named_agents(targets),
        "consumer": consumer.owner if consumer else "",
        "limit": most(limit),
    }
    with connection.transaction():
        if not is_consumer(connection, consumer, now):
            return ()
        rows = connection.execute(sql["due_calls"], bound).fetchall()
        for number, row in enumerate(rows):
            until = now + seconds + number * _APART
            taken = {"scope_key": row["scope_key"], "key": row["key"], "until": until}
            connection.execute(sql["take_call"], taken)
    return tuple(
        ClaimedCall(
            scope=Scope(row["tenant"], row["user_id"]),
            wait=to_wait(row),
            task=decode_json(row["task"] or "{}", dict),
            waited=now - row["opened"],
        )
        for row in rows
    )


def postpone_call(connection: Session, scope: Operator, call: ClaimedCall, seconds: float) -> None:
    """Let any process take a claimed call after *seconds*, unless it has an answer or a run."""
    check_operator(scope)
    bound = {"scope_key": scope_key(call.scope.key), "key": call.wait.key, "until": connection.now() + seconds}
    connection.execute(connection.queries["postpone_call"], bound)


def start_call(connection: Session, start: RunStart) -> None:
    """Check that the call of the root run *start* still waits, and let no process take it again; in a transaction."""
    connection.lock("lock_tree", {"run_id": start.parent_id})
    bound = {"scope_key": scope_key(start.scope.key), "key": start.parent_call}
    found = connection.execute(connection.queries["call_to_answer"], {**bound, "now": connection.now()}).fetchone()
    if found is None:
        raise RunEndedError(f"run {start.run_id!r} cannot start: its call {start.parent_call!r} waits for no result")
    connection.execute(connection.queries["take_call"], {**bound, "until": None})


def answer_call(connection: Session, run: int, reply: Resolution, now: float) -> None:
    """Answer the call that the root *run* works for, unless it has an answer; in the transaction of the run's end."""
    row = connection.execute(connection.queries["call_of_run"], (run,)).fetchone()
    if row is None:
        return
    bound = {"scope_key": row["scope_key"], "key": row["parent_call"], "now": now}
    operation = connection.execute(connection.queries["call_to_answer"], bound).fetchone()
    if operation is not None:
        answer_operation(connection, operation, reply, now)


def claim_target(
    connection: Session, scope: Operator, target: str, owner: str, seconds: float, agents: Collection[str]
) -> str:
    """Make *owner* the only consumer of *target*, unless another one has it. Return the owner of the target now."""
    check_operator(scope)
    sql, now = connection.queries, connection.now()
    bound = {"target": target, "owner": owner, "lease": now + seconds, "now": now, "agents": named_agents(agents)}
    holder: str
    ((holder,),) = connection.execute(sql["claim_target"], bound).fetchall()
    if holder != owner and connection.is_dead(holder):
        ((holder,),) = connection.execute(sql["claim_target"], {**bound, "now": None}).fetchall()
    return holder


def leave_target(connection: Session, scope: Operator, target: str, owner: str) -> None:
    """End the lease of *owner* on *target*."""
    check_operator(scope)
    connection.execute(connection.queries["leave_target"], {"target": target, "owner": owner})
