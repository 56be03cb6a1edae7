"""Ending a tree of runs that no process drives, from its open operations alone: no journal is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ...errors import StorageError
from ...events import StoppedWork, StopReceipt
from ...messages import AssistantMessage, Message, ToolCall
from ...operations import ENDED, Operation
from ...scope import AnyScope
from ...storage.base import Store
from ...storage.process import process_owner
from ...storage.types import RunStart, Settlement, StoredRun
from ...token_engine.counting.base import EstimatingCounter
from ...token_engine.counting.sizes import message_text
from ...usage import Tokens, UsageRecord
from ..journal.data_policy import NOTHING, policy_of
from ..journal.entries import Ended, Started, outcome_of
from ..journal.lease import LEASE, Tree
from ..journal.replay import OpenTurn, started_of
from ..journal.writer import Journal
from ..outcome import Outcome, reply_of, result_message
from ..run import RunSession
from ..tool_calls.context import OUTSIDE
from ..tool_calls.dispatch import INTERRUPTED, NOT_RUN

LOST = "the process ended before the attempt was settled, so it is unknown whether it was answered; {prompt}"


def _count(message: Message) -> int:
    return EstimatingCounter().count(message_text(message))


async def seal(
    store: Store, scope: AnyScope, root_id: str, status: Literal["cancelled", "failed"], why: str
) -> StopReceipt:
    """End *root_id* and all runs below it as *status*, without their agents.

    Each open call gets a result, each open attempt is booked as unknown, and each wait is cancelled. The receipt lists
    calls that may have taken effect as unknown.

    Raises `RunClaimedError` while a process works on the tree, `RunEndedError`, `UnknownRunError`, `StorageError`.
    """
    tree = Tree(root_id, store, LEASE)
    claim = tree.claim = await store.claim(scope, root_id, process_owner(), tree.lease)
    try:
        stored = await store.run(claim.scope, root_id)
        if stored is not None and (started := await _started(store, stored.start)) is not None:
            tree.claim = replace(claim, payer=started.payer)
        await seal_below(tree, status, why)
        root = await store.run(claim.scope, root_id)
        assert root is not None
        await _seal_one(tree, root, status, why)
    finally:
        await tree.release()
    return tree.receipt()


async def seal_below(
    tree: Tree, status: Literal["cancelled", "failed"], why: str, *, suspended: str | None = None
) -> None:
    """End all runs below the root of *tree* that have not ended, the deepest first.

    *suspended* is an agent path: only the suspended runs below it.
    """
    store = tree.store
    assert store is not None
    assert tree.claim is not None
    runs = await store.runs(tree.claim.scope, root_id=tree.root_id, limit=1_000_000)
    for run in sorted(runs, key=lambda run: run.start.agent_path.count("/"), reverse=True):
        if suspended is not None and (run.state != "suspended" or not run.start.agent_path.startswith(f"{suspended}/")):
            continue
        if run.end is None and run.start.run_id != tree.root_id:
            await _seal_one(tree, run, status, why)


async def _seal_one(tree: Tree, run: StoredRun, status: Literal["cancelled", "failed"], why: str) -> None:
    store, start = tree.store, run.start
    assert store is not None
    operations = await store.operations(start.scope, run_id=start.run_id)
    journal = Journal(tree, start.run_id, start.scope, _count)
    started = await _started(store, start)
    journal.policy = NOTHING if started is None else policy_of(started.policy)
    journal.restore(run.entries, 0, "")
    for operation in operations:
        if operation.kind == "model_call":
            usage, settlement = lost_usage(operation, start.agent_path)
            journal.book(usage, settlement, "unknown")
    for outcome, native in closed_calls(tree, start.agent_path, operations):
        journal.add(result_message(outcome, native=native))
    journal.close([operation.key for operation in operations if operation.kind == "tool_call"])
    receipt = tree.receipt() if start.run_id == start.root_id else None
    end = journal.end_of(status, await _last_text(store, start), why)
    if start.parent_id is not None and start.run_id == start.root_id:
        end = replace(end, reply=reply_of(start.agent, status, "", why))
    await journal.append(Ended(status=status, error=why, receipt=receipt), _last_step(operations), end=end)


async def close_open_turn(run: RunSession, why: str) -> None:
    """Complete the turn that an earlier process left open and this one did not reach, and end all runs below a root."""
    if isinstance(run.opened, OpenTurn) and run.tree.store is not None:
        operations = await run.tree.store.operations(run.scope, run_id=run.id)
        for outcome, native in closed_calls(run.tree, run.path, operations):
            run.add(result_message(outcome, native=native))
        run.journal.close([operation.key for operation in operations if operation.kind == "tool_call"])
    if run.parent is None:
        await seal_below(run.tree, "cancelled", why)


async def _started(store: Store, start: RunStart) -> Started | None:
    """Return the run's entry 0; None if it is damaged."""
    try:
        stored = await store.load(start.scope, start.run_id)
        return None if stored is None else started_of(stored)
    except Exception:  # noqa: BLE001 - whatever is wrong with the entry, the run must be ended
        return None


async def _last_text(store: Store, start: RunStart) -> str:
    """Return the model's last text; empty if the messages are damaged."""
    try:
        messages = [stored.message for stored in await store.messages(start.scope, start.run_id)]
    except StorageError:
        return ""
    return next((m.text for m in reversed(messages) if isinstance(m, AssistantMessage)), "")


def _last_step(operations: Sequence[Operation]) -> int:
    return max((operation.step for operation in operations), default=0)


def closed_calls(tree: Tree, path: str, operations: Sequence[Operation]) -> list[tuple[Outcome, bool]]:
    """Return an outcome for each open call of a turn, and whether the model's message contains the call.

    The receipt of *tree* lists what became of the calls.
    """
    found: list[tuple[Outcome, bool]] = []
    for operation in sorted(operations, key=lambda operation: operation.index):
        if operation.kind != "tool_call":
            continue
        call = ToolCall(operation.call_id, operation.name, "")
        if operation.outcome is not None:
            if operation.index != OUTSIDE:
                found.append((outcome_of(call, operation.outcome), bool(operation.call_id)))
            continue
        begun = operation.state in ("running", *ENDED) or operation.waits_for == "result"
        lost = begun and operation.effect == "once"
        effect = operation.effect if begun else ""
        work = StoppedWork(agent_path=path, what="tool", name=call.name, call_id=call.id, effect=effect)
        tree.note_stopped("unknown" if lost else "stopped", work)
        if operation.index != OUTSIDE:
            found.append((Outcome(call, INTERRUPTED if begun else NOT_RUN, is_error=True), bool(operation.call_id)))
    return found


def lost_usage(operation: Operation, path: str) -> tuple[UsageRecord, Settlement | None]:
    """Return the usage record of an attempt whose outcome is unknown, and what it takes from the accounts.

    A budget must never be exceeded, so the attempt takes everything that was reserved for it.
    """
    provider, _, model = operation.name.partition(":")
    prompt = "its prompt is not recorded" if operation.prompt is None else "its prompt is estimated"
    record = UsageRecord(
        id=operation.key,
        run_id=operation.run_id,
        agent_path=path,
        provider=provider,
        model=model,
        tokens=Tokens(prompt=operation.prompt or 0),
        source="unknown",
        how=LOST.format(prompt=prompt),
    )
    if operation.tokens is None:
        return record, None
    return record, Settlement(id=record.id, tokens=operation.tokens, money=operation.money)
