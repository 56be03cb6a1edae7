"""A run's place in the store: begun there, or taken up from its journal where another life of it was left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from ...errors import ConfigurationError, RunEndedError, UnknownRunError
from ...events import RunResult, StopReceipt
from ...storage.base import Store
from ...storage.process import process_owner
from ...storage.types import Claim, RunStart, Settlement
from ...token_engine.counting.base import TokenCounter
from ...usage import Tokens, UsageRecord
from ..journal.lease import accounts_of
from ..journal.replay import Attempt, OpenTurn, Record, fold
from ..model_call.budget import tokens_of
from ..run import Run
from .open import Parent, chat_of, restore

LOST = "the process ended before it was settled: nobody can say whether it was answered; {prompt}"


async def begin(
    run: Run[Any], start: RunStart, body: dict[str, Any], content: dict[str, Any], parent: Parent | None
) -> None:
    """Note in the store that the run has begun, with what it was given. Raises `RunExistsError`."""
    tree = run.tree
    assert tree.store is not None
    if parent is None:
        claim = Claim(root_id=run.id, epoch=1, owner=process_owner(), seconds=tree.lease, tries=1)
        if run.chat.budget is not None:
            await tree.store.set_budget(tree.accounts[0], run.chat.budget)
        tree.budgeted = bool(await tree.store.accounts(tree.accounts))
        tree.claim = claim
        since = asyncio.get_running_loop().time()
        await run.journal.begin(start, body, content)
        tree.hold(claim, since)
    else:
        await run.journal.begin(start, body, content)


async def take_up(run: Run[Any], parent: Parent | None) -> Record:
    """Claim the run, and put it where its journal says it stands. What was being asked of a model is booked as lost.

    Raises `UnknownRunError`, `RunEndedError`, `RunClaimedError`, `ErasedError`, `StorageError`.
    """
    tree = run.tree
    store = tree.store
    if store is None:
        raise ConfigurationError("Chat(store=...) is None: a run is taken up from a store")
    since = asyncio.get_running_loop().time()
    claim = await store.claim(run.id, process_owner(), tree.lease) if parent is None else None
    if claim is not None:
        tree.hold(claim, since)
    try:
        record = await open_record(store, run.id)
        run.chat = chat_of(record, run.chat)
        session = run.chat.session
        run.journal.user_id = session.user_id
        if parent is None:
            tree.accounts = accounts_of(run.id, session.user_id, session.organization_id)
            tree.budgeted = bool(await store.accounts(tree.accounts))
        restore(run, record)
        await _restore_ledger(run, store)
        await _settle_lost(run, record)
        assert tree.claim is not None
        await run.journal.append("resumed", run.state.step, {} if tree.claim.sure else {"unsure": True})
        if isinstance(run.opened, OpenTurn) and not tree.claim.sure:
            run.opened.unsure = True
    except BaseException:
        if claim is not None:
            await tree.let_go()
        raise
    return record


async def open_record(store: Store, run_id: str) -> Record:
    """The record of a run that has not ended. Raises `UnknownRunError`, `RunEndedError`, and as `fold`."""
    journal = await store.load(run_id)
    if journal is None:
        raise UnknownRunError(f"there is no run {run_id!r} in this store")
    if journal.run.end is not None:
        raise RunEndedError(f"run {run_id} has ended: it is {journal.run.end.status}")
    return fold(journal)


async def _restore_ledger(run: Run[Any], store: Store) -> None:
    below = run.path + "/"
    for record in await store.usage(run.root_id):
        if record.agent_path == run.path or record.agent_path.startswith(below):
            run.ledger.book(record)


async def _settle_lost(run: Run[Any], record: Record) -> None:
    """Every attempt that was announced is booked: these ended with their process."""
    for lost, settlement in lost_usage(record, run.chat.counter, run.tree.accounts):
        if run.ledger.book(lost):
            run.journal.book(lost, settlement)


def lost_usage(
    record: Record, counter: TokenCounter, accounts: tuple[str, ...]
) -> Iterator[tuple[UsageRecord, Settlement | None]]:
    """For each attempt of which nobody knows what became of it: its record, and what it takes from the accounts.

    Budgets must hold: it takes what was set aside for it.
    """
    for attempt in record.in_flight.values():
        provider, _, model = attempt.model.partition(":")
        prompt, how = _lost_prompt(attempt, counter)
        lost = UsageRecord(
            id=attempt.usage_id,
            run_id=record.run.start.run_id,
            agent_path=record.run.start.agent_path,
            provider=provider,
            model=model,
            tokens=Tokens(prompt=prompt),
            source="unknown",
            how=LOST.format(prompt=how),
        )
        settlement = None
        if attempt.tokens is not None:
            settlement = Settlement(id=lost.id, accounts=accounts, tokens=attempt.tokens, money=attempt.money)
        yield lost, settlement


def _lost_prompt(attempt: Attempt, counter: TokenCounter) -> tuple[int, str]:
    """The tokens of what was asked, as far as they are known, and how they are known."""
    if attempt.request is not None:
        return tokens_of(attempt.request, counter), f"prompt counted with {counter.name}"
    if attempt.prompt is not None:
        return attempt.prompt, "prompt as it was reserved, at most"
    return 0, "its prompt is not on record"


async def child_result(run: Run[Any], parent: Parent) -> tuple[RunResult | None, bool]:
    """What a call's sub-agent came to in an earlier life: its result if it has ended, and whether it had begun."""
    store = run.tree.store
    if store is None or (stored := await store.run(parent.child_id())) is None:
        return None, False
    if stored.end is None:
        return None, True
    journal = await store.load(stored.start.run_id)
    assert journal is not None
    return result_of(fold(journal), list(await store.usage(run.root_id))), True


def result_of(record: Record, usage: list[UsageRecord]) -> RunResult:
    """The result of a run that has ended, as its journal and the ledger of its tree tell it."""
    start, end = record.run.start, record.run.end
    assert end is not None
    path = start.agent_path
    mine = [r for r in usage if r.agent_path == path or r.agent_path.startswith(path + "/")]
    return RunResult(
        run_id=start.run_id,
        agent_path=path,
        status=end.status,
        text=record.state.text,
        content_index=record.index,
        steps=record.state.step,
        tool_calls=dict(record.state.tool_calls),
        usage=tuple(mine),
        data=dict(record.data),
        messages=tuple(record.added),
        error=record.error,
        receipt=None if record.receipt is None else StopReceipt.restored(record.receipt),
    )
