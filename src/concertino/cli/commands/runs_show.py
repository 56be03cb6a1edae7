"""`concertino runs show`: everything that the store knows of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...errors import StorageError
from ...runtime.timeline import Timeline, TimelineAttempt, TimelineCall, TimelineStep, read_timeline
from ...scope import OPERATOR
from ...storage.types import Account, StoredRun
from ...usage import UsageRecord, total
from ...waits import Wait
from ..command_context import CommandContext
from ..render.format import exact, iso
from ..render.run_report import AgentSummary, RunReport, note_text, report_blocks
from .run_state import (
    ALL,
    find_run,
    own_usage,
    resumable_trees,
    run_object,
    step_count,
    sums_object,
    tree_of,
    tree_usage,
    wait_object,
)


async def show_run(run_id: str, context: CommandContext) -> int:
    """Print the report of the run. Raises `UnknownRunError`."""
    report = await _load(run_id, context)
    if context.console.as_json:
        context.console.json(_report_object(report))
    else:
        context.console.print(*report_blocks(report, context.console.width))
    return 0


async def _load(run_id: str, context: CommandContext) -> RunReport:
    store, options = context.store, context.options
    trees = await resumable_trees(store)
    run = await find_run(context, run_id)
    start = run.start
    runs = await tree_of(store, run)
    usage = tree_usage(await store.usage(OPERATOR, start.root_id), run)
    ids = {one.start.run_id for one in runs}
    waits = [w for w in await store.waits(OPERATOR, root_id=start.root_id, open=False, limit=ALL) if w.run_id in ids]
    agents = []
    for one in runs:
        own = own_usage(usage, one)
        agents.append(AgentSummary(run=one, state=trees.state_of(one), steps=step_count(own), usage=own))
    ready = start.root_id in trees.ready
    return RunReport(
        agents=agents,
        timeline=await _timeline(run, agents[0].usage, waits, context),
        waits=[(wait, options.answer_commands(wait)) for wait in waits if wait.resolution is None],
        accounts=await store.accounts(start.scope, run_id=start.root_id),
        ready=ready,
        advice=list(_advice(run, agents[0].state, ready, context)),
    )


async def _timeline(run: StoredRun, usage: list[UsageRecord], waits: list[Wait], context: CommandContext) -> Timeline:
    run_id = run.start.run_id
    try:
        journal = await context.store.load(OPERATOR, run_id)
    except StorageError as error:  # damaged, or stored by a newer version: everything else can still be shown
        return Timeline(problem=str(error))
    assert journal is not None
    return read_timeline(journal, usage, waits, await context.store.operations(OPERATOR, run_id=run_id))


def _advice(run: StoredRun, state: str, ready: bool, context: CommandContext) -> Iterator[str]:
    resume = f"Resume it: {context.options.resume_command(run.start.root_id)}"
    if state == "dead_letter":
        yield f"Its processes did not survive it. Retry it: {context.options.command('retry', run.start.root_id)}"
    elif state == "interrupted":
        yield f"Its process has ended. {resume}"
    elif ready:
        yield f"All answers have arrived. {resume}"
    if run.stop and run.end is None:
        yield "A stop was requested."


def _report_object(report: RunReport) -> dict[str, Any]:
    run, timeline = report.run, report.timeline
    return {
        **run_object(run, report.agents[0].state, report.usage),
        "answer": None if run.end is None else run.end.answer,
        "erased": timeline.erased,
        "process": timeline.process or None,
        "stop_requested": run.stop,
        "ready": report.ready,
        "accounts": [_account(account) for account in report.accounts],
        "agents": [run_object(agent.run, agent.state, agent.usage) for agent in report.agents],
        "timeline": [_step(step) for step in timeline.steps],
        "problem": timeline.problem or None,
        "waits": [wait_object(wait) for wait, _ in report.waits],
        "receipt": None if timeline.receipt is None else dataclasses.asdict(timeline.receipt),
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "kind": account.kind,
        "tokens": account.budget.tokens,
        "money": exact(account.budget.money),
        "spent_tokens": account.spent_tokens,
        "spent_money": exact(account.spent_money),
        "reserved_tokens": account.reserved_tokens,
        "reserved_money": exact(account.reserved_money),
    }


def _step(step: TimelineStep) -> dict[str, Any]:
    return {
        "step": step.number,
        "at": iso(step.at),
        "seconds": round(max(step.until - step.at, 0.0), 3),  # waits included
        "model_seconds": None if step.model_seconds is None else round(step.model_seconds, 3),
        "model": step.model,
        **sums_object(total(step.usage)),
        "attempts": [_attempt(attempt) for attempt in step.attempts],
        "calls": [_call(call) for call in step.calls],
        "notes": [
            {"at": iso(note.at), "event": note.label, "text": note_text(note), "process": note.process or None}
            for note in step.notes
        ],
    }


def _attempt(attempt: TimelineAttempt) -> dict[str, Any]:
    record = attempt.record
    return {
        "id": attempt.usage_id,
        "at": iso(attempt.at),
        "model": attempt.model,
        "process": attempt.process or None,
        "side": attempt.side,
        "lost": attempt.lost,
        "error": attempt.error or None,
        "source": None if record is None else record.source,
        "price": None if record is None else record.price_version or None,
    }


def _call(call: TimelineCall) -> dict[str, Any]:
    return {
        "name": call.name or None,
        "call_id": call.call_id or None,
        "arguments": call.arguments,
        "state": call.state,
        "error": call.error or None,
        "waits": [wait_object(wait) for wait in call.waits],
    }
