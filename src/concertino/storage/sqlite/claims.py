"""Who may write a tree: claims are taken, renewed and given back."""

from __future__ import annotations

import sqlite3
import time

from ...errors import RunClaimedError, RunEndedError, StorageError, UnknownRunError
from ..owners import is_dead
from ..types import Claim, Head
from .journal import stale, standing
from .schema import queries, transaction


def claim(connection: sqlite3.Connection, run_id: str, owner: str, seconds: float) -> Claim:
    """Take the tree of the root *run_id*."""
    if not owner:
        raise StorageError(f"run {run_id!r} must be claimed by an owner with a name")
    with transaction(connection):
        row = standing(connection, run_id)
        if row["root_id"] != run_id:
            raise UnknownRunError(f"run {run_id!r} is no root: claim {row['root_id']!r}, the top of its tree")
        if row["ending"] is not None:
            raise RunEndedError(f"run {run_id!r} has ended")
        now = time.time()
        if not is_free(row["owner"], row["lease"], now):
            over = max(0, round(row["lease"] - now))
            raise RunClaimedError(f"run {run_id!r} is held by {row['owner']!r} for {over} s", row["owner"])
        bound = {"run": row["number"], "owner": owner, "lease": now + seconds, "tries": int(row["owner"] != "")}
        ((epoch, tries),) = connection.execute(queries()["take"], bound).fetchall()
    sure = row["owner"] == "" or is_dead(row["owner"])
    return Claim(root_id=run_id, epoch=epoch, owner=owner, seconds=seconds, tries=tries, sure=sure)


def renew(connection: sqlite3.Connection, held: Claim, seconds: float) -> Head:
    """Hold *held* for *seconds* from now."""
    bound = {"root_id": held.root_id, "epoch": held.epoch, "owner": held.owner}
    with transaction(connection):
        bound["lease"] = time.time() + seconds
        found = connection.execute(queries()["renew"], bound).fetchall()
        if not found:
            raise stale(standing(connection, held.root_id), held)
    entries, commands, stop = found[0]
    return Head(seq=entries, commands=commands, stop=bool(stop))


def release(connection: sqlite3.Connection, held: Claim) -> None:
    """Give *held* back; nothing if it is stale."""
    bound = {"root_id": held.root_id, "epoch": held.epoch, "owner": held.owner}
    with transaction(connection):
        connection.execute(queries()["release"], bound)


def is_free(owner: str, lease: float, now: float) -> bool:
    """Whether a tree that *owner* held until *lease* may be taken."""
    return owner == "" or lease <= now or is_dead(owner)
