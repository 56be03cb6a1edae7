"""Calls that a target of a fleet answers: the task of its processes, and the share of their run in the caller's."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from ...errors import ConcertinoError, ToolError
from ...ids import child_run_id
from ...tools.base import Pending
from ..journal.data_policy import policy_form
from ..journal.replay import replay
from ..run import RunSession
from .approval import NeedsAnswer


def waiting_call(run: RunSession, ordinal: int | str, pending: Pending, arguments: str) -> NeedsAnswer:
    """Return the signal of a call that waits for its result. Raises `ToolError` if a sub-agent may not start."""
    task = dict(pending.task)
    if "agent" in task and run.journal.on:
        if (why := run.meter.refuse_spawn(run.path)) is not None:
            raise ToolError(why)
        task |= _given(run, ordinal, task["agent"])
    text = json.dumps(task, ensure_ascii=False)
    return NeedsAnswer("result", pending.seconds, (), pending.note, arguments, target=pending.target, task=text)


def _given(run: RunSession, ordinal: int | str, agent: str) -> dict[str, Any]:
    """Return what a sub-agent in another process is given of the run above."""
    chat, claim = run.chat, run.tree.claim
    assert claim is not None
    return {
        "model": run.model_id,
        "path": f"{run.path}/{agent}-{ordinal}",
        "conversation_id": chat.conversation_id,
        "memory": chat.memory_enabled,
        "personalization": chat.personalization_enabled,
        "traceparent": chat.traceparent,
        "payer": claim.payer or claim.root_id,
        "limits": run.meter.left(),
        "patterns": policy_form(run.journal.policy)[4:],
    }


async def count_called_run(run: RunSession, key: str) -> None:
    """Add the usage and the tool calls of the run that has worked for the call *key*, once."""
    store = run.tree.store
    assert store is not None
    called = child_run_id(key)
    for record in await store.usage(run.scope, called):
        if run.tree.ledger.book(record):
            run.meter.restore_usage([record])
    journal = await store.load(run.scope, called)
    if journal is None:
        return  # it has not started
    with suppress(ConcertinoError):  # its data policy may have erased the journal
        counts = replay(journal).state.tool_calls
        run.count_calls(counts)
        run.meter.restore_run(counts)
