"""Forking: a new run that stands where another one stood."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from ...ids import new_run_id, usage_id
from ...storage.base import Store
from ...storage.codec import encode_message
from ...storage.process import process_owner
from ...storage.types import Claim, StoredJournal
from ...token_engine.counting.base import EstimatingCounter
from ...tools.base import Session
from ..journal.data_policy import policy_of
from ..journal.lease import LEASE, Tree
from ..journal.replay import Record, asking_entry, fold, spec_text
from ..journal.writer import Journal


async def fork(store: Store, journal: StoredJournal, step: int) -> str:
    """A run that stands where *journal*'s stood when it was about to ask its model in *step*; its id.

    It is a root of its own, and waits to be taken up. Raises `RunStateError` if there was no such step, `ErasedError`.
    """
    record = fold(journal, before_step=step)
    kept = asking_entry(journal, step)
    old, new_id = record.run.start, new_run_id()
    start = dataclasses.replace(
        old,
        run_id=new_id,
        root_id=new_id,
        parent_id=None,
        parent_call=None,
        agent_path=old.agent,
        forked_from=old.run_id,
        started=time.time(),
    )
    tree = Tree(new_id, store, Session(), LEASE)
    tree.claim = Claim(root_id=new_id, epoch=1, owner=process_owner(), seconds=LEASE, tries=1)
    made = Journal(tree, new_id, old.user_id, EstimatingCounter())
    made.policy = policy_of(record.begun["policy"])
    before = made.text_ids([encode_message(message) for message in record.before])
    await made.begin(start, {**record.begun, "before": before, "forked_from": old.run_id, "step": step}, record.given)
    for message in record.added:
        made.add(message)
    if [*record.before, *record.added] != record.messages:
        made.replace(record.messages[:-1])
    made.edit(record.edits)
    for name, value in record.data.items():
        made.data(name, value)
    for path, count in record.state.tool_calls.items():
        made.count(path, count)
    body, content = _standing(made, record, kept.body, kept.content or {})
    body["request"]["usage"] = usage_id(new_id, step, body["request"]["attempt"])
    await made.append("model_requested", step, body, content)
    await tree.let_go()
    return new_id


def _standing(
    made: Journal, record: Record, body: dict[str, Any], held: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entry that asks, with all that came before it in one."""
    assert record.request is not None
    request = {**body["request"], "forked": True}
    request.pop("reserved", None)
    if "system" in request:
        (request["system"],) = made.text_ids([record.texts[request["system"]]])
    if request["tools"] is not True:
        request["tools"] = made.text_ids([record.texts[key] for key in request["tools"]])
    (system,) = made.text_ids([record.system])
    kept = {name: value for name, value in body.items() if name in ("state", "index", "attempts", "choice", "rent")}
    kept.update(system=system, tools=made.text_ids([spec_text(spec) for spec in record.tools]), request=request)
    kept["calls_of"] = record.state.calls_of
    content = {name: value for name, value in held.items() if name in ("extra", "messages", "settings")}
    content.update(agent=record.agent_state, text=record.state.text, cache_key=record.cache_key)
    return kept, content
