"""A run's start in the store, and its resumption by another process at the point that its journal records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...errors import ConcertinoError, ConfigurationError, RunEndedError, UnknownRunError
from ...events import RunResult
from ...operations import Operation
from ...scope import Scope
from ...storage.base import Store
from ...storage.process import process_name, process_owner
from ...storage.types import Claim, StoredJournal
from ...token_engine.digests import RECALL
from ...token_engine.edits import decode_edits
from ...token_engine.token_engine import TokenEngine
from ...waits import MOST_WAITS, Wait
from ..chat import Attachment, Chat
from ..journal.entries import Resumed, unpack_context
from ..journal.lease import Claimed
from ..journal.replay import OpenTurn, Replay, load_replay
from ..journal.snapshot import Booked
from ..meter import Meter
from ..model_call.request import add_recall
from ..resources import limits_from
from ..run import RunSession
from ..tool_calls.context import OUTSIDE, Parent
from .open import example_count
from .repair import call_ids
from .result import replayed_result
from .seal import lost_usage
from .unread import Unread

_FRESH = 0.1
"""Share of a lease after which a claim is renewed before its tree is resumed."""


async def resume(run: RunSession, parent: Parent | None, claimed: Claimed | None, *, here: bool = False) -> Replay:
    """Claim the run and restore the state that its journal records. Attempts that were in flight are booked as lost.

    A tree that is *claimed* already is not claimed again, nor its journal read again. *here* is true for a sub-agent
    that was suspended in this process, which has counted its work.

    Raises `UnknownRunError`, `RunEndedError`, `RunClaimedError`, `ErasedError`, `StorageError`.
    """
    tree = run.tree
    store = tree.store
    if store is None:
        raise ConfigurationError("a run is resumed from a store: give Resources(store=...)")
    claim = None
    if parent is None:
        claim, since = await _claimed(store, run.scope, run.id, tree.lease, claimed)
        tree.start_lease(claim, since)
    try:
        found = await _replayed(store, run.scope, run.id, claimed and claimed[2])
        run.set_chat(chat_of(found, run.chat))
        run.journal.packed_context = found.started.context
        run.journal.conversation_id = run.chat.conversation_id
        if claim is not None:
            tree.claim = replace(claim, payer=found.started.payer)
        operations, waits = await _read_open(run, found, store, root=claim is not None)
        run.first_record = None
        _restore(run, found, store)
        own = [operation for operation in operations if operation.run_id == run.id]
        if isinstance(run.opened, OpenTurn):
            run.opened.operations, run.opened.waits = own, waits
        if parent is None:
            run.meter = Meter(run.limits)
            run.meter.open_runs = 1
            run.meter.restore_usage(tree.ledger.records(run.path, 0))
            if found.snapshot is not None:
                run.meter.restore_sums(await _booked(run, found, store))
            # The attempts in flight of the whole tree: a sub-agent that is resumed later books its own only then.
            lost = [each for each in operations if each.kind == "model_call"]
            run.meter.restore_usage([lost_usage(operation, run.path)[0] for operation in lost])
        if not here:
            run.meter.restore_run(found.state.tool_calls, found.seconds, found.at)
        _restore_operations(run, own)
        assert tree.claim is not None
        await run.journal.append(Resumed(sure=tree.claim.sure, process=process_name(tree.claim.owner)), run.state.step)
    except BaseException:
        if claim is not None:
            await tree.release()
        raise
    return found


async def _read_open(
    run: RunSession, found: Replay, store: Store, *, root: bool
) -> tuple[Sequence[Operation], Sequence[Wait]]:
    """Return the operations of the run and, of a *root*, of all its tree, and the waits of the run.

    With a root, restore what the tree's runs share.
    """
    tree = run.tree
    if not root:
        operations = await store.operations(run.scope, run_id=run.id)
        return operations, await store.waits(run.scope, run_id=run.id, open=False, limit=MOST_WAITS)
    assert tree.claim is not None
    opened = await store.open_tree(tree.claim, after=found.snapshot_at if found.snapshot else -1)
    tree.budgeted, tree.runs_below = bool(opened.accounts), opened.runs_below
    if run.recorder is not None:
        tree.stored_events = opened.last_event, opened.undone
    for record in opened.usage:
        tree.ledger.book(record)
    return opened.operations, opened.waits


async def _booked(run: RunSession, found: Replay, store: Store) -> Booked:
    """Return what the run had booked before the entry of its snapshot.

    If tokens or money are limited, the ledger tells: since then, `settle_usage` may have corrected it.
    """
    if run.meter.sums:
        every = await store.usage(run.scope, run.id)
        read = {each.id for each in run.tree.ledger.records(run.path, 0)}
        found.sources.booked = Booked().plus(each for each in every if each.id not in read)
    return found.sources.booked


async def _claimed(
    store: Store, scope: Scope, run_id: str, lease: float, claimed: Claimed | None
) -> tuple[Claim, float]:
    """Claim a tree, and return the claim with the time of its request.

    If the caller is cancelled meanwhile, the claim is released, which would otherwise last for a lease.
    """
    now = asyncio.get_running_loop().time()
    if claimed is not None:
        claim, since, _ = claimed
        if now - since <= lease * _FRESH:
            return claim, since
        await store.renew(claim, lease)  # it has waited in a batch
        return claim, now
    claiming = asyncio.ensure_future(store.claim(scope, run_id, process_owner(), lease))
    try:
        return await asyncio.shield(claiming), now
    except asyncio.CancelledError:
        with suppress(ConcertinoError):
            await store.release(await claiming)
        raise


async def _replayed(store: Store, scope: Scope, run_id: str, journal: StoredJournal | None) -> Replay:
    found = await load_replay(store, scope, run_id, journal)
    if found is None:
        raise UnknownRunError(f"there is no run {run_id!r} in this store")
    if found.run.end is not None:
        raise RunEndedError(f"run {run_id} has ended: it is {found.run.end.status}")
    return found


def _restore_operations(run: RunSession, operations: Sequence[Operation]) -> None:
    """Book every attempt that an earlier process announced and did not settle; keep its calls outside turns."""
    for operation in operations:
        if operation.kind == "tool_call" and operation.index == OUTSIDE:
            run.outside[operation.key] = operation
        if operation.kind != "model_call":
            continue
        usage, settlement = lost_usage(operation, run.path)
        if run.tree.ledger.book(usage):
            run.journal.book(usage, settlement)
        run.journal.end_attempt(operation.key, "unknown")


def chat_of(found: Replay, chat: Chat) -> Chat:
    """Return the chat that the run was given; the model stays the one of *chat*."""
    start, given = found.run.start, found.started
    return Chat(
        given.message,
        model=chat.model,
        media=found.media,
        history=found.before,
        context=None if given.context is None else unpack_context(given.context, found.texts),
        scope=start.scope,
        conversation_id=start.conversation_id,
        system_prompt=given.system_prompt,
        personalization=given.personalization,
        memories=tuple(given.memories),
        project_rules=given.project_rules,
        attachments=[Attachment(*file) for file in given.attachments],
        project_attachments=[Attachment(*file) for file in given.project_attachments],
        memory_enabled=not given.without_memory,
        personalization_enabled=not given.without_personalization,
        chatbot_id=given.chatbot,
        send_tools=not given.without_tools,
        budget=chat.budget,
        traceparent=given.traceparent,
        caller=chat.caller,
    )


def _restore(run: RunSession, found: Replay, store: Store) -> None:
    """Restore everything but the agent's own state."""
    run.limits = limits_from(found.started.limits)
    run.window = TokenEngine(run.resources.counter, run.limits.context, run.resources.retention, model=run.model_id)
    run.state, run.attempts, run.data, run.phase = found.state, found.attempts, found.data, found.phase
    for answer in found.side_answers:
        run.side_answers.setdefault((answer.caller, answer.question), []).append(answer.answer)
    run.tree.content_index = max(run.tree.content_index, found.index)
    found.sources.seconds = found.seconds
    run.journal.restore(found.entries, found.commands, found.state.text, found.sources)
    if found.stage == "started":
        return
    run.system = found.system
    skipped = tuple(found.started.skipped)
    run.skipped = None if found.replaced else skipped
    run.window.example_count = 0 if found.replaced else example_count(skipped)
    for message in found.messages:
        run.window.append(message)
    ready = found.ready
    if not ready and run.chat.context is not None:
        ready = decode_edits(run.chat.context.prepared, run.window.example_count)
    run.added = found.added
    run.call_ids = call_ids(found.messages)
    unread = None
    if found.snapshot is not None:
        run.unread = Unread(run, found, store)
        unread = run.unread.part
    run.window.restore(found.view.edits, found.bill, ready, unread)
    run.window.failures = found.failures
    kept = {spec.name for spec in found.tools}
    for tool in run.registry.all():
        if tool.spec.name not in kept:  # a hook has removed it
            run.registry.unregister(tool.name)
    if any(spec.name == RECALL for spec in found.tools):
        add_recall(run)
    run.opened = found.request if found.stage == "requested" else found.turn


async def child_result(run: RunSession, parent: Parent, output_type: Any) -> tuple[RunResult | None, bool]:
    """Return the result of a call's sub-agent from an earlier process, if it has ended, and whether it had started."""
    store = run.tree.store
    if store is None or (stored := await store.run(run.scope, parent.child_id())) is None:
        return None, False
    if stored.end is None:
        return None, True
    found = await load_replay(store, run.scope, stored.start.run_id)
    assert found is not None
    usage = run.tree.ledger.records(stored.start.agent_path)
    return await replayed_result(found, usage, output_type), True
