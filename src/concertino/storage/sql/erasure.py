"""Erasure of content. Rows are blanked in their pages; schema.sql explains why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import ConfigurationError, StorageError
from ...scope import Operator, Scope, TenantScope
from ...usage import Tokens, UsageRecord
from ..codec import decode_json, encode_json
from ..types import Erased, RunEnd
from .budgets import charge_reserved
from .journal import end_tree, erase_content
from .media import release_contents
from .rows import account_keys, scope_key, scope_row, to_operation, usage_row
from .schedule import check_operator
from .schedules import forget_schedules
from .sealing import discard, discard_expired, discard_runs, discard_user, seal
from .secrets import forget_secrets
from .session import Session
from .statements import scoped

_ENDED = "its owner was erased"
_UNSETTLED = "the run was ended before the attempt was settled; prompt as reserved, at most"
_OF_A_RUN = (
    "forget_messages",
    "erase_content",
    "erase_texts_of_run",
    "forget_end",
    "forget_waits",
    "forget_answers",
    "forget_commands",
    "erase_events",
    "forget_log",  # the last events of a run that has just ended may be on their way
)
_OF_A_CONVERSATION = (
    "forget_turn_words",
    "blank_conversation",
    "forget_conversation",
    "delete_conversation_head",
    "delete_turns",
)


def sweep(connection: Session, scope: Operator) -> int:
    """Erase content whose time is over. Return the number of runs it was erased from."""
    check_operator(scope)
    sql, now = connection.queries, connection.now()
    rows = connection.execute(sql["due_to_sweep"], {"now": now}).fetchall()
    if rows:  # else the write lock is not needed
        with connection.transaction():
            rows = connection.execute(sql["due_to_sweep"], {"now": now}).fetchall()
            for run, erase_at in rows:
                _sweep_run(connection, run, erase_at, now)
    if connection.execute(sql["has_expired_text"], {"now": now}).fetchone() is not None:
        with connection.transaction():
            _expire_texts(connection, now)
    # Also if nothing was due: a reader may have blocked the last one.
    connection.checkpoint()
    return len(rows)


def erase(connection: Session, scope: Scope | TenantScope, *, force: bool) -> Erased:
    """Erase everything that *scope* reaches except the ledger. With *force*, end running trees as cancelled first.

    Raises `StorageError` if a run has not ended.
    """
    if not isinstance(scope, Scope | TenantScope):
        raise ConfigurationError(f"erase({scope!r:.80}): name a Scope or a TenantScope")
    if force:
        with connection.transaction():
            connection.lock("lock_trees", scope_row(scope), scope)
            end_trees(connection, connection.execute(*scoped(connection, "open_roots", scope)).fetchall(), _ENDED)
    with connection.transaction():
        connection.lock("lock_trees", scope_row(scope), scope)
        rows = connection.execute(*scoped(connection, "runs_to_forget", scope)).fetchall()
        for row in rows:
            if not row["ended"]:
                raise StorageError(f"run {row['run_id']!r} has not ended: stop it first, or erase with force")
        owners = {Scope(row["tenant"], row["user_id"]) for row in rows}
        for owner in connection.execute(*scoped(connection, "scopes_of_texts", scope)).fetchall():
            discard_user(connection, Scope(*owner))
        discard_runs(connection, [row["number"] for row in rows])
        for row in rows:
            _forget_run(connection, row["number"], row["tenant"])
        found = connection.execute(*scoped(connection, "conversations_to_forget", scope)).fetchall()
        forget_conversations(connection, [row[0] for row in found])
        connection.execute(*scoped(connection, "forget_texts", scope))
        if isinstance(scope, Scope):  # all runs of a tenant were erased with those who answered
            for name in ("forget_answerer", "forget_sender"):
                connection.execute(*scoped(connection, name, scope))
        forget_schedules(connection, scope)
        forget_secrets(connection, scope)
        memories = connection.execute(*scoped(connection, "forget_memories", scope)).rowcount
        if memories:
            connection.rebuild_words()
        _forget_accounts(connection, {scope, *owners})
    connection.checkpoint()
    return Erased(runs=len(rows), memories=memories)


def _forget_accounts(connection: Session, owners: Iterable[Scope | TenantScope]) -> None:
    """Forget the accounts of users, and of a tenant that is erased as a whole."""
    for owner in owners:
        kind = "user" if isinstance(owner, Scope) else "tenant"
        for key in [key for found, key in account_keys(owner) if found == kind]:
            connection.lock("lock_whole_accounts", {"keys": [key]})
            connection.execute(connection.queries["forget_account"], (key,))
            connection.execute(connection.queries["forget_reservations"], (key,))


def end_trees(connection: Session, roots: Iterable[tuple[int, float | None]], why: str) -> None:
    """End running trees as cancelled, from their operations alone; inside a transaction.

    *roots*: the number of each root, and the time after which its content is erased.
    """
    now = connection.now()
    for root, erase_after in roots:
        _book_unsettled(connection, root, now)
        # The epoch fences the process that may still work on the tree: its next append is refused.
        connection.execute(connection.queries["revoke"], (root,))
        end = RunEnd(status="cancelled", answer="", error=why, ended=now, erase_after=erase_after)
        end_tree(connection, root, root, end, now)


def forget_content(connection: Session, run: int) -> None:
    """Erase all content of a run that has ended, after its keys; inside a transaction."""
    for name in _OF_A_RUN:
        connection.execute(connection.queries[name], {"run": run})
    release_contents(connection, run)
    connection.execute(connection.queries["plan_sweep"], {"run": run, "erase_at": None}).fetchall()


def forget_conversations(connection: Session, numbers: Sequence[int]) -> None:
    """Erase conversations apart from their runs; inside a transaction."""
    discard(connection, "conversation", numbers)
    for number in numbers:
        for name in _OF_A_CONVERSATION:
            connection.execute(connection.queries[name], (number,))


def _book_unsettled(connection: Session, root: int, now: float) -> None:
    """Book the model attempts of a tree that were in flight as unknown, and charge what was reserved for them."""
    sql = connection.queries
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


def _forget_run(connection: Session, run: int, tenant: str) -> None:
    forget_content(connection, run)
    connection.execute(connection.queries["forget_approval_rules"], {"run": run})
    connection.execute(connection.queries["forget_run"], {"run": run, "scope_key": scope_key(Scope(tenant).key)})


def _sweep_run(connection: Session, run: int, erase_at: float | None, now: float) -> None:
    sql, bound = connection.queries, {"run": run, "now": now}
    discard_expired(connection, run, now)
    over = erase_at is not None and erase_at <= now
    if over:
        erase_content(connection, run)
    if connection.execute(sql["expire_messages"], bound).rowcount:
        release_contents(connection, run, shared=True)
    if connection.execute(sql["expire_end"], bound).fetchall():
        connection.execute(sql["expire_task"], bound)
    connection.execute(sql["plan_sweep"], {"run": run, "erase_at": None if over else erase_at}).fetchall()


def _expire_texts(connection: Session, now: float) -> None:
    """Blank titles and feedback whose time is over. A rating stays, since it is not text."""
    sql = connection.queries
    for number, conversation, kind, body in connection.execute(sql["expired_texts"], {"now": now}).fetchall():
        rating = decode_json(body, dict).get("rating") if kind == "feedback" and body else None
        left = "" if rating is None else encode_json({"rating": rating, "text": ""})
        connection.execute(sql["replace_text"], (seal(connection, left, "conversation", conversation), number))
