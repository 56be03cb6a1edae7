"""A run from its start to its printed result and exit status."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

from ...errors import RunStateError
from ...events import RunEnded, RunEvent, RunResult
from ...orchestrator.resources import Resources
from ...runtime import LiveRun, Runtime
from ...scope import OPERATOR
from ...waits import Wait
from ..command_context import CommandContext
from ..render.console import rich_console
from ..render.format import one_line, readable, waits_for
from ..render.log import LogView
from ..render.result_document import CitedSources, ResultDocument, result_document

LEASE = 9.0
"""Seconds of a lease in this program. `runs stop` in another process takes effect after a third of it."""
_SECOND_SIGNAL = 1.0
"""Seconds for which a terminal waits for a second signal: parking itself takes less than it takes to press a key."""
SUSPENDED = 3
"""The exit status of a suspended run."""


async def watch(
    run: LiveRun,
    context: CommandContext,
    sources: CitedSources,
    *,
    question: str,
    conversation_id: str,
    delegates: Collection[str] = (),
    streams_answer: bool = False,
) -> ResultDocument:
    """Show the run until it ends, and return its result. A signal parks the run, and a second one cancels it.

    *delegates* names the tools that are agents. With *streams_answer*, a terminal shows the answer as it is written.
    """
    signals = context.signals
    started = False
    async with _view(context, frozenset(delegates), streams_answer=streams_answer) as show:
        try:
            with signals.cancel_task():
                await run.started()
                started = True
                async for _, event in run.events(run.resumed_after):
                    sources.update(event)
                    show(event)
        except asyncio.CancelledError:
            if not signals.absorb_cancellation():
                raise
            result = await _park(run, context) if started else await _abandon(run)
            if result is None:
                raise
            show(RunEnded(result.run_id, result.agent_path, result.content_index, result))
        else:
            result = await run.result()
    await run.recorded()
    return result_document(result, question=question, conversation_id=conversation_id, sources=sources)


def _view(
    context: CommandContext, delegates: frozenset[str], *, streams_answer: bool
) -> AbstractAsyncContextManager[Callable[[RunEvent], None]]:
    if not context.console.interactive:
        return nullcontext(LogView(context.console.notice, delegates).update)
    from ..render.live import live_view  # noqa: PLC0415 - a pipe does not need rich

    return live_view(rich_console(sys.stderr), answer=streams_answer)


async def _park(run: LiveRun, context: CommandContext) -> RunResult:
    """Leave the run to be resumed, or cancel it after a second signal. Return its result so far."""
    interactive, second = context.console.interactive, asyncio.Event()

    def cancel() -> None:
        second.set()
        context.console.notice("cancelling the run; another Ctrl-C ends this program at once")

    with context.signals.on_second(cancel):
        if interactive:
            context.console.notice("the run is parked; Ctrl-C again cancels it")
        await run.park()
        if interactive:
            with suppress(TimeoutError):
                await asyncio.wait_for(second.wait(), _SECOND_SIGNAL)
        result = await run.result()
        stored = await context.store.run(OPERATOR, run.id)
        if stored is None or stored.end is not None:
            return result  # it ended just before
        if not second.is_set():
            return dataclasses.replace(result, status="suspended", error=None)
        runtime = Runtime((), Resources(store=context.store))
        await runtime.stop(OPERATOR, run.id)
        return await runtime.result(OPERATOR, run.id)


async def _abandon(run: LiveRun) -> RunResult | None:
    """Give up a run that has not started; return its result if it had none the less."""
    run.abandon()
    try:
        return await run.result()
    except RunStateError:
        return None


def print_result(document: ResultDocument, context: CommandContext) -> int:
    """Print the answer and the run's location, the latter even if the answer raises `OutputError`.

    Return 0, 1 for a failed run, 3 for a suspended one, or 128 + n for one stopped by signal n.
    """
    line, status = _ending(document.result, context)
    console = context.console
    try:
        if console.as_json:
            console.json(document.as_object())
        elif document.report.strip():
            console.answer(document.report)
    finally:
        for wait in document.result.waiting:
            _print_wait(wait, context)
        console.notice(line)
    return status


def _print_wait(wait: Wait, context: CommandContext) -> None:
    """Print a waiting call and the commands that answer it."""
    call = f"{wait.tool} {readable(wait.arguments)}" + (f" ({wait.note})" if wait.note else "")
    context.console.notice(f"{wait.agent_path}: {waits_for(wait.kind)}: {one_line(call, 300)}")
    for command in context.options.answer_commands(wait):
        context.console.notice(f"  {command}")


def _ending(result: RunResult, context: CommandContext) -> tuple[str, int]:
    stored = f"{context.database} (run {result.run_id})"
    match result.status:
        case "completed":
            return f"stored in {context.database} as {result.run_id}", 0
        case "limited":
            return f"concertino: no answer within the limits: {result.error}; its results so far are in {stored}", 1
        case "failed":
            return f"concertino: the run failed: {result.error}; its results so far are in {stored}", 1
        case "cancelled":
            if not context.signals.received:
                return f"stopped by another process; its results so far are in {stored}", 1
            return f"stopped; its results so far are in {stored}", context.signals.exit_status
        case "suspended":
            command = context.options.resume_command(result.run_id)
            if not context.signals.received:
                line, status = f"suspended in {stored}; after the answers: {command}", SUSPENDED
            else:
                line, status = f"parked in {stored}; to continue: {command}", context.signals.exit_status
            return line, status
