"""Ending a tree of runs that nobody drives: one that waits, or lies where its process was killed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from ...events import StopReceipt
from ...storage.base import Store
from ...storage.process import process_owner
from ...token_engine.counting.base import EstimatingCounter
from ...tools.base import Session
from ..journal.data_policy import policy_of
from ..journal.lease import LEASE, Tree, accounts_of
from ..journal.replay import Record
from ..journal.writer import Journal
from .repair import closing
from .resume import lost_usage, open_record


async def seal(store: Store, root_id: str, status: Literal["cancelled", "failed"], why: str) -> StopReceipt:
    """End *root_id* and all below it as *status*, without their agents: every open call gets a result, every attempt
    that was announced is booked, and what waits is cancelled. Calls that may have taken effect are unknown in the
    receipt.

    Raises `RunClaimedError` if a process is at work on it, `RunEndedError`, `UnknownRunError`, `StorageError`.
    """
    tree = Tree(root_id, store, Session(), LEASE)
    tree.claim = await store.claim(root_id, process_owner(), tree.lease)
    try:
        await seal_below(tree, status, why)
        await _seal_one(tree, await open_record(store, root_id), status, why)
    finally:
        await tree.let_go()
    return tree.receipt()


async def seal_below(tree: Tree, status: Literal["cancelled", "failed"], why: str) -> None:
    """End all runs below the root of *tree* that have not ended, the deepest first."""
    store = tree.store
    assert store is not None
    runs = await store.runs(root_id=tree.root_id, limit=1_000_000)
    for run in sorted(runs, key=lambda run: run.start.agent_path.count("/"), reverse=True):
        if run.end is None and run.start.run_id != tree.root_id:
            await _seal_one(tree, await open_record(store, run.start.run_id), status, why)


async def _seal_one(tree: Tree, record: Record, status: Literal["cancelled", "failed"], why: str) -> None:
    start = record.run.start
    accounts = accounts_of(start.root_id, start.user_id, start.organization_id)
    counter = EstimatingCounter()
    journal = Journal(tree, start.run_id, start.user_id, counter)
    journal.policy = policy_of(record.begun["policy"])
    journal.restore(record.entries, record.commands, record.state.text)
    for usage, settlement in lost_usage(record, counter, accounts):
        journal.book(usage, settlement)
    for message in closing(tree, record.run.start.agent_path, record.turn, record.added):
        journal.add(message)
    body = {"status": status, "receipt": asdict(tree.receipt()) if start.run_id == tree.root_id else None}
    end = journal.end_of(status, record.state.text, why)
    await journal.append("ended", record.state.step, body, {"error": why}, end=end)
