"""Forking: a new run in the state that another run had before a step."""

from __future__ import annotations

import dataclasses
import time

from ...ids import new_run_id, usage_id
from ...messages import Message, UserMessage
from ...storage.base import Store
from ...storage.process import process_owner
from ...storage.types import Claim, StoredJournal
from ...token_engine.counting.base import EstimatingCounter
from ...token_engine.counting.sizes import message_text
from ..journal.data_policy import policy_of
from ..journal.entries import ModelRequested, Position, schema_text, spec_text
from ..journal.lease import LEASE, Tree
from ..journal.replay import Replay, replay, request_entry
from ..journal.writer import Journal


def _count(message: Message) -> int:
    return EstimatingCounter().count(message_text(message))


async def fork(store: Store, journal: StoredJournal, step: int) -> str:
    """Create a run in the state of *journal*'s before its model call of *step*, and return its id.

    The fork is a root of its own and waits to be resumed. Raises `RunStateError` if there is no such step,
    `ErasedError`, `StorageError`.
    """
    found = replay(journal, before_step=step)
    request = request_entry(journal, step)
    old, new_id = found.run.start, new_run_id()
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
    tree = Tree(new_id, store, LEASE)
    tree.claim = Claim(root_id=new_id, scope=old.scope, epoch=1, owner=process_owner(), seconds=LEASE, tries=1)
    made = Journal(tree, new_id, old.scope, _count, old.conversation_id)
    made.policy = policy_of(found.started.policy)
    before = made.message_ids(found.before)
    context = found.started.context
    if context is not None:
        logs = [made.conversation_text_ids([found.texts[key] for key in log]) for log in context[:2]]
        context = [*logs, *context[2:]]
    media = made.message_ids([UserMessage("", found.media)])[0] if found.media else None
    started = dataclasses.replace(found.started, before=before, follows=None, media=media)
    await made.start(start, dataclasses.replace(started, context=context, payer="", process="", forked_from=old.run_id))
    for message in found.added:
        made.add(message)
    if [*found.before, *found.added] != found.messages:
        made.replace(found.messages[:-1])
    made.edit(found.view.edits)
    for name, value in found.data.items():
        made.data(name, value)
    for path, count in found.state.tool_calls.items():
        made.count(path, count)
    await made.append(_request(made, found, request, new_id, step), step)
    await tree.release()
    return new_id


def _request(made: Journal, found: Replay, request: ModelRequested, new_id: str, step: int) -> ModelRequested:
    """Return the request of the fork, with everything that led to it in one entry."""
    record = dataclasses.replace(
        request.request, usage_id=usage_id(new_id, step, request.request.attempt), forked=True, reserved=None
    )
    tools = request.tools
    position: Position = dataclasses.replace(
        request.position,
        bill=found.bill,
        failures=found.failures,
        commands=None,
        text=found.state.text,
        agent_state=found.agent_state,
        background=found.background or None,
    )
    return dataclasses.replace(
        request,
        position=position,
        request=record,
        tools=tools if tools is True else made.text_ids([found.texts[key] for key in tools]),
        system=None if request.system is None else made.text_ids([found.texts[request.system]])[0],
        run_system=made.text_ids([found.system])[0],
        run_tools=made.text_ids([spec_text(spec) for spec in found.tools]),
        schema=None if found.schema is None or not request.schema else made.text_ids([schema_text(found.schema)])[0],
        cache_key=found.cache_key,
        calls_of=found.state.calls_of,
    )
