"""`concertino runs export`: a whole tree as JSON lines, as the data policy leaves it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ...orchestrator.journal.data_policy import DataPolicy, KeepFor, policy_of
from ...storage.codec import encode_message
from ...storage.types import StoredEntry, StoredJournal, StoredMessage
from ...waits import Wait
from ..context import Desk
from ..render.format import exact, iso
from .run_state import ALL, as_object, find, own, standing, tree_of
from .runs_show import wait_object


async def export_run(run_id: str, desk: Desk) -> int:
    """Print the tree that the run belongs to: `kind` in each line says what it is. Raises `UnknownRunError`."""
    store, screen = desk.store, desk.screen
    stands = await standing(store)
    root = await find(desk, (await find(desk, run_id)).start.root_id)
    usage = await store.usage(root.start.run_id)
    policies: dict[str, DataPolicy] = {}
    for run in await tree_of(store, root):
        start, end = run.start, run.end
        journal = await store.load(start.run_id)
        assert journal is not None
        policy = policies[start.run_id] = _policy(journal)
        whole = {"answer": None if end is None else end.answer, "entries": run.entries}
        screen.object({"kind": "run", **as_object(run, stands.of(run), own(usage, run)), **whole})
        for entry in journal.entries:
            screen.object({"kind": "entry", "run_id": start.run_id, **_entry(entry, policy)})
        for place, stored in enumerate(await store.messages(start.run_id)):
            screen.object({"kind": "message", "run_id": start.run_id, "position": place, **_message(stored)})
    for record in usage:
        screen.object({"kind": "usage", **dataclasses.asdict(record), "cost": exact(record.cost)})
    for wait in await store.waits(root_id=root.start.run_id, open=False, limit=ALL):
        screen.object({"kind": "wait", **wait_object(_kept(wait, policies.get(wait.run_id)))})
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


def _kept(wait: Wait, policy: DataPolicy | None) -> Wait:
    how = "drop" if policy is None else policy.tool(wait.tool).arguments
    if how == "keep" or isinstance(how, KeepFor):
        return wait
    return dataclasses.replace(wait, arguments="", note="")


def _policy(journal: StoredJournal) -> DataPolicy:
    form = journal.entries[0].body.get("policy") if journal.entries else None
    return DataPolicy() if form is None else policy_of(form)
