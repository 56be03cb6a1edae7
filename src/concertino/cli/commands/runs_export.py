"""`concertino runs export`: a whole tree of runs as JSON lines, reduced by its data policy."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ...orchestrator.journal.data_policy import DataPolicy, KeepFor, policy_of
from ...orchestrator.journal.entries import Started
from ...orchestrator.journal.replay import read_steps
from ...scope import OPERATOR
from ...storage.codec import encode_message, receipt_json
from ...storage.types import StoredEntry, StoredJournal, StoredMessage
from ...waits import Wait
from ..command_context import CommandContext
from ..render.format import exact, iso
from .run_state import ALL, find_run, own_usage, resumable_trees, run_object, tree_of, wait_object


async def export_run(run_id: str, context: CommandContext) -> int:
    """Print the tree of the run; `kind` names the type of each line. Raises `UnknownRunError`."""
    store, console = context.store, context.console
    trees = await resumable_trees(store)
    root = await find_run(context, (await find_run(context, run_id)).start.root_id)
    usage = await store.usage(OPERATOR, root.start.run_id)
    policies: dict[str, DataPolicy] = {}
    for run in await tree_of(store, root):
        start, end = run.start, run.end
        journal = await store.load(OPERATOR, start.run_id)
        assert journal is not None
        policy = policies[start.run_id] = _policy(journal)
        extra = {"answer": None if end is None else end.answer, "entries": run.entries}
        console.json({"kind": "run", **run_object(run, trees.state_of(run), own_usage(usage, run)), **extra})
        for entry in journal.entries:
            console.json({"kind": "entry", "run_id": start.run_id, **_entry(entry, policy)})
        for index, stored in enumerate(await store.messages(OPERATOR, start.run_id)):
            console.json({"kind": "message", "run_id": start.run_id, "position": index, **_message(stored)})
    for record in usage:
        receipt = None if record.receipt is None else receipt_json(record.receipt)
        form = {**dataclasses.asdict(record), "cost": exact(record.cost), "receipt": receipt}
        console.json({"kind": "usage", **form})
    for wait in await store.waits(OPERATOR, root_id=root.start.run_id, open=False, limit=ALL):
        console.json({"kind": "wait", **wait_object(_reduced(wait, policies.get(wait.run_id)))})
    return 0


def _entry(entry: StoredEntry, policy: DataPolicy) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "entry": entry.kind,
        "step": entry.step,
        "at": iso(entry.at),
        "epoch": entry.epoch,
        "erased": entry.erased,
        "body": entry.body,
        "content": entry.content if policy.keeps_everything else None,
        "usage": [record.id for record in entry.usage],
    }


def _message(stored: StoredMessage) -> dict[str, Any]:
    return {
        "message": json.loads(encode_message(stored.message)),
        "tokens": stored.tokens,
        "progress": list(stored.progress),
    }


def _reduced(wait: Wait, policy: DataPolicy | None) -> Wait:
    """Return *wait* without the arguments and the note that the policy does not keep."""
    kept = "drop" if policy is None else policy.tool(wait.tool).arguments
    if kept == "keep" or isinstance(kept, KeepFor):
        return wait
    return dataclasses.replace(wait, arguments="", note="")


def _policy(journal: StoredJournal) -> DataPolicy:
    first = next(read_steps(journal, strict=False), None)
    return policy_of(first.entry.policy) if first is not None and isinstance(first.entry, Started) else DataPolicy()
