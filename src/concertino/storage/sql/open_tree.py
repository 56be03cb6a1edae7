"""Reading what a claimed tree has open, in one round trip."""

from __future__ import annotations

from dataclasses import replace

from ...waits import MOST_WAITS
from ..open_tree import OpenTree
from ..types import Claim
from .approvals import ask_waits
from .budgets import ask_accounts, to_account
from .events import ask_log, known_log, to_events
from .reader import ask_operations, ask_usage, operations, without_media
from .rows import to_usage, to_wait
from .session import Session


def open_tree(connection: Session, claim: Claim, after: int) -> OpenTree:
    """Return what the holder of *claim* needs to resume the tree, with the usage after the root's entry *after*."""
    scope, root_id, sql = claim.scope, claim.root_id, connection.queries
    # No transaction: only the holder of the claim writes most of it, and an answer may come at any time.
    with connection.batched():
        log = ask_log(connection, scope, root_id)
        undone = connection.execute(sql["undone_events"], (root_id,))
        below = connection.execute(sql["has_open_runs_below"], (root_id,))
        accounts = ask_accounts(connection, scope, claim.payer or root_id)
        usage = ask_usage(connection, scope, root_id, after)
        opened = ask_operations(connection, scope, root_id, None)
        waits = ask_waits(connection, scope, None, root_id, only_open=False, limit=MOST_WAITS, after=None)
    found = without_media(opened.fetchall())
    tree = OpenTree(
        accounts=tuple(map(to_account, accounts.fetchall())),
        usage=tuple(map(to_usage, usage.fetchall())),
        operations=found or (),
        waits=tuple(map(to_wait, waits.fetchall())),
        runs_below=bool(below.fetchone()[0]),
        last_event=known_log(log.fetchone(), root_id)["last"],
        undone=to_events(undone.fetchall()),
    )
    if found is None:
        found = operations(connection, scope, root_id, None)
        later = ask_waits(connection, scope, None, root_id, only_open=False, limit=MOST_WAITS, after=None)
        tree = replace(tree, operations=found, waits=tuple(map(to_wait, later.fetchall())))
    return tree
