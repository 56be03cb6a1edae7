"""Claims on trees: who may write them, until when, and how another process takes over."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import RunClaimedError, RunEndedError, StaleClaimError, StorageError, UnknownRunError
from ...scope import AnyScope, Operator, Scope
from ..call_store import Consumer
from ..process import process_of
from ..types import Claim, Head
from .schedule import check_operator, end_overdue, is_consumer, named_agents, reschedule
from .session import Row, Session, Write
from .statements import most, scoped

UNSURE = "?"
"""Owner of a tree that was released, while the process before that may still be working: the next claim is not sure."""


def claim_tree(connection: Session, scope: AnyScope, run_id: str, owner: str, seconds: float) -> Claim:
    """Claim the tree of the root *run_id*."""
    _check_owner(owner, f"run {run_id!r}")
    row = position(connection, scope, run_id)
    if row["root_id"] != run_id:
        raise UnknownRunError(f"run {run_id!r} is a sub-agent's: claim {row['root_id']!r}, the root of its tree")
    if row["ending"] is not None:
        raise RunEndedError(f"run {run_id!r} has ended")
    now = connection.now()
    dead = connection.is_dead(row["owner"])
    if row["owner"] != "" and row["lease"] > now and not dead:
        left = max(0, round(row["lease"] - now))
        raise RunClaimedError(f"run {run_id!r} is claimed by {row['owner']!r} for {left} s", row["owner"])
    return _claim(connection, row, owner, seconds, now)


class ClaimingDue(Write[list[Claim]]):
    """Claims trees that are due."""

    def __init__(
        self,
        scope: Operator,
        owner: str,
        seconds: float,
        limit: int,
        agents: Collection[str] | None,
        consumer: Consumer | None = None,
    ) -> None:
        check_operator(scope)
        _check_owner(owner, "due trees")
        self.owner, self.seconds, self.limit = owner, seconds, most(limit)
        self.agents = named_agents(agents)
        self.consumer = consumer
        self.in_turn = False
        """Whether more was due than an earlier claim took. Then tenants take turns, if the database finds them."""
        self.last: str | None = None
        """The tenant with which the earlier claim has ended, and then this one."""

    def work(self, connection: Session) -> list[Claim]:
        """Expire overdue waits, and claim the trees that are due, the longest due first."""
        now = connection.now()
        if not is_consumer(connection, self.consumer, now):
            return []
        end_overdue(connection, now)
        bound = {
            "now": now,
            "agents": self.agents,
            "limit": self.limit,
            "process": process_of(self.owner),
            "consumer": self.consumer.owner if self.consumer else "",
        }
        rows = connection.execute(connection.queries["due_roots"], bound).fetchall()
        return [_claim(connection, row, self.owner, self.seconds, now) for row in rows]


def renew(connection: Session, claim: Claim, seconds: float) -> Head:
    """Extend the lease of *claim* to *seconds* from now."""
    sql, fence = _fenced(connection, "renew", claim)
    bound = {**fence, "process": process_of(claim.owner), "lease": connection.now() + seconds}
    found = connection.execute(sql, bound).fetchall()
    if found:
        entries, commands, stop = found[0]
        return Head(seq=entries, commands=commands, stop=bool(stop))
    row = claimed_position(connection, claim, claim.root_id)
    if row["ending"] is None or row["epoch"] != claim.epoch:
        raise stale(row, claim)
    # The tree has ended, and with it the claim. No other process can claim it.
    return Head(seq=row["entries"], commands=row["commands"])


def release(connection: Session, claim: Claim) -> None:
    """Release *claim*; do nothing if it is stale."""
    sql, fence = _fenced(connection, "release", claim)
    left = "" if claim.sure else UNSURE
    for (root,) in connection.execute(sql, {**fence, "left": left}).fetchall():
        reschedule(connection, root, connection.now())


def position(connection: Session, scope: AnyScope, run_id: str) -> Row:
    """Return the state of a run and the claim on its tree. Raises `UnknownRunError`."""
    sql, bound = scoped(connection, "position", scope)
    row: Row | None = connection.execute(sql, {**bound, "run_id": run_id}).fetchone()
    if row is None:
        raise UnknownRunError(f"unknown run {run_id!r}")
    return row


def _claim(connection: Session, row: Row, owner: str, seconds: float, now: float) -> Claim:
    bound = {
        "run": row["number"],
        "owner": owner,
        "process": process_of(owner),
        "lease": now + seconds,
        "tries": int(row["owner"] not in ("", UNSURE)),
    }
    ((epoch, tries),) = connection.execute(connection.queries["claim"], bound).fetchall()
    reschedule(connection, row["number"], now)
    return Claim(
        root_id=row["root_id"],
        scope=Scope(row["tenant"], row["user_id"]),
        epoch=epoch,
        owner=owner,
        seconds=seconds,
        tries=tries,
        sure=row["owner"] == "" or connection.is_dead(row["owner"]),
    )


def _check_owner(owner: str, what: str) -> None:
    if not owner:
        raise StorageError(f"claim on {what} without an owner: pass process_owner()")


def _fenced(connection: Session, name: str, claim: Claim) -> tuple[str, dict[str, object]]:
    """Return the statement *name* and its parameters, limited to the tree of *claim* while the claim is valid."""
    sql, bound = scoped(connection, name, claim.scope)
    return sql, {**bound, "root_id": claim.root_id, "epoch": claim.epoch, "owner": claim.owner}


def claimed_position(connection: Session, claim: Claim, run_id: str) -> Row:
    """Return the position of a run of the claimed tree. Raises `StaleClaimError` if it is unknown."""
    try:
        return position(connection, claim.scope, run_id)
    except UnknownRunError as error:
        raise StaleClaimError(f"claim {claim.epoch} of {claim.owner!r} is stale: {error}") from error


def check_claim(row: Row, claim: Claim) -> None:
    """Raise `StaleClaimError` unless *claim* is the last one on the tree of *row*."""
    if (row["epoch"], row["owner"]) != (claim.epoch, claim.owner):
        raise stale(row, claim)


def stale(row: Row, claim: Claim) -> StaleClaimError:
    """Return the error for *claim* on the tree of *row*."""
    now = f"claimed by {row['owner']!r}" if row["owner"] else "released"
    return StaleClaimError(
        f"claim {claim.epoch} of {claim.owner!r} on run {row['root_id']!r} is stale: "
        f"the run is {now} at claim {row['epoch']}"
    )
