"""Turns the state of a run into journal entries and appends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ..errors import ProviderError
from ..events import RunStatus
from ..messages import ToolCall
from ..operations import Operation
from ..providers.base import Model, ModelRequest
from ..records import record
from ..storage.types import Reservation
from ..token_engine.edits import Edit
from .journal.entries import (
    CallsChanged,
    Ended,
    EndStatus,
    ModelAnswered,
    ModelRequested,
    Position,
    RequestRecord,
    SideAnswered,
    SideRequested,
    SummaryReady,
    Suspended,
    pack_context,
    request_settings,
    schema_text,
    spec_text,
)
from .journal.snapshot import Shown
from .model_call.budget import tokens_of
from .outcome import Finish, StepOutcome, Turn, reply_of
from .plain import dump_state, plain
from .run import RunSession


@record(frozen=False)
class Prepared:
    """A request that is reserved and recorded, and may be sent."""

    model: Model
    model_id: str
    request: ModelRequest
    usage_id: str


def position(run: RunSession) -> Position:
    """Return where *run* is. The journal leaves out what did not change since the previous entry."""
    agent_state = run.context.agent_state
    return Position(
        state=run.state,
        index=run.tree.content_index,
        attempts=run.attempts,
        bill=round(run.window.bill),
        failures=run.window.failures,
        commands=run.journal.processed,
        text=run.state.text,
        agent_state=dump_state(agent_state) if agent_state is not None else "" if run.has_state else None,
        background=None if run.background is None else run.background.rows(),
    )


async def record_request(
    run: RunSession,
    prepared: Prepared,
    reserve: Reservation | None = None,
    *,
    own_messages: bool,
    prompt: str = "",
    after: ProviderError | None = None,
) -> None:
    """Record a turn's request before it is sent, with everything that led to it; *after* ended the previous attempt.

    *prompt* is the text after the conversation that this request alone contains.

    Raises `BudgetError`, and records nothing, if an account does not cover *reserve*.
    """
    journal, specs, request = run.journal, run.registry.specs(), prepared.request
    here = position(run)
    if journal.on and journal.seq >= journal.snapshot_from:
        size = len(here.agent_state or "") + len(run.system) + sum([len(spec.text) for spec in specs])
        journal.plan_snapshot(run.phase + journal.late, run.state, size, _shown(run))
    changes = journal.changes(system=run.system, tools=specs, cache_key=request.cache_key)
    schema: Literal[True] | str | None = None
    if request.output_schema is not None:
        changed = journal.changes(schema=request.output_schema)
        schema = journal.text_ids([schema_text(request.output_schema)])[0] if changed else True
    run_system: str | None = None
    run_tools: list[str] | None = None
    if "system" in changes or "tools" in changes:
        run_system, *run_tools = journal.text_ids([run.system, *map(spec_text, specs)])
    entry = ModelRequested(
        position=here,
        request=_request_record(prepared, reserve),
        choice=request.tool_choice,
        parallel=request.parallel_tool_calls,
        tools=request.tools == specs or journal.text_ids(list(map(spec_text, request.tools))),
        system=None if request.system == run.system else journal.text_ids([request.system])[0],
        run_system=run_system,
        run_tools=run_tools,
        breakpoints=request.breakpoints,
        cache_key=changes.get("cache_key"),
        schema=schema,
        settings=request_settings(request),
        extra=plain(request.extra) if request.extra else {},
        messages=journal.message_texts(request.messages) if own_messages else None,
        prompt=prompt or None,
        after=None if after is None else type(after).__name__,
        after_text=None if after is None else str(after),
    )
    if own_messages or prompt or request.system != run.system or request.tools is not specs:
        tokens = tokens_of(request, run.resources.counter)
    else:
        tokens = run.window.estimated_tokens
    operation = _attempt_operation(run, prepared, reserve, tokens)
    if run.outside:  # the request contains what followed from these calls
        journal.close(run.outside)
    try:
        await journal.append(entry, run.state.step, [operation], reserve=reserve)
    except BaseException:
        journal.forget()  # a run that is interrupted before it is written may continue without it
        raise
    run.outside, run.phase = {}, run.phase + 1


def _shown(run: RunSession) -> Shown:
    """Return the messages that the run has added and its view shows, and the first one, which hooks see."""
    window = run.window
    shift = len(window.record()) - len(run.added)
    indexes = [0, *[index - shift for index in window.shown_from(max(shift, 0))]]
    return Shown(indexes=indexes, shift=shift, omitted=window.omitted)


async def record_side_request(run: RunSession, prepared: Prepared, reserve: Reservation | None) -> None:
    """Record a request outside the conversation. Raises `BudgetError` as `record_request` does."""
    entry = SideRequested(request=_request_record(prepared, reserve))
    prompt = tokens_of(prepared.request, run.resources.counter)
    operation = _attempt_operation(run, prepared, reserve, prompt)
    await run.journal.append(entry, run.state.step, [operation], reserve=reserve, aside=True)


async def record_side_answer(run: RunSession, caller: str, question: str, answer: str) -> None:
    """Record the answer to a question of a hook or a tool, so that *caller* gets it again after a crash."""
    if run.journal.on:
        entry = SideAnswered(caller=caller, question=question, answer=answer)
        await run.journal.append(entry, run.state.step, aside=True)


async def record_outside(run: RunSession, operation: Operation) -> None:
    """Record that a call outside a turn began or ended, with its outcome."""
    await run.journal.append(CallsChanged(), run.state.step, [operation], aside=True)


async def record_answer(
    run: RunSession, turn: Turn, calls: tuple[ToolCall, ...], outcome: StepOutcome, *, own: bool = False
) -> None:
    """Record the answer of a turn and its calls before any of them runs. The agent's *own* turn has no request."""
    run_system: str | None = None
    run_tools: list[str] | None = None
    if own:
        specs = run.registry.specs()
        if run.journal.changes(system=run.system, tools=specs):
            run_system, *run_tools = run.journal.text_ids([run.system, *map(spec_text, specs)])
        if run.outside:  # the turn contains what followed from these calls
            run.journal.close(run.outside)
            run.outside = {}
    finish = isinstance(outcome, Finish)
    entry = ModelAnswered(
        position=position(run),
        has_message=bool(turn.message.parts),
        call_count=len(calls),
        calls=calls if calls and calls != turn.message.tool_calls else None,
        finish=finish,
        finish_text=outcome.text if isinstance(outcome, Finish) else None,
        run_system=run_system,
        run_tools=run_tools,
    )
    try:
        await run.journal.append(entry, run.state.step)
    except BaseException:
        run.journal.forget()
        raise
    run.phase += 1


async def record_calls(run: RunSession) -> None:
    """Record the calls that began, wait or ended before the others."""
    await run.journal.append(CallsChanged(), run.state.step)


async def record_suspension(run: RunSession, outcome: Finish | None = None) -> None:
    """Record that only calls that wait are left: in a turn, or after it, where the run would finish with *outcome*."""
    finish, text = outcome is not None, None if outcome is None else outcome.text
    await run.journal.append(Suspended(position=position(run), finish=finish, finish_text=text), run.state.step)


async def record_summary(run: RunSession, ready: Sequence[Edit]) -> None:
    """Record a summary that is ready, with its usage, so that it is not made twice."""
    if run.journal.on:
        await run.journal.append(SummaryReady(ready=tuple(ready)), run.state.step, aside=True)


async def record_end(run: RunSession, status: RunStatus, error: str | None, *, read: int | None = None) -> None:
    """Record the end, with the context for the next run of the conversation. Nothing but usage can follow.

    With *read*, raises `UnreadMessagesError` if a message with a greater number was sent to the run.
    """
    if not run.journal.on:
        return
    ended: EndStatus = status  # type: ignore[assignment]  # a suspended run has not ended
    receipt = run.tree.receipt() if status == "cancelled" and run.id == run.tree.root_id else None
    journal, context = run.journal, None
    ends_turn = run.id == run.tree.root_id and run.chat.caller is None
    if journal.next_context is not None and run.chat.conversation_id and ends_turn:
        known = run.chat.context, journal.packed_context
        context = pack_context(journal.next_context, journal.conversation_text_ids, *known)
        journal.name_texts(context[0])
    entry = Ended(
        status=ended,
        position=position(run),
        error=error,
        receipt=receipt,
        context=context,
    )
    end = run.journal.end_of(ended, run.state.text, error)
    if run.chat.caller is not None and run.id == run.tree.root_id:
        end = replace(end, reply=reply_of(run.agent.name, ended, run.state.text, error))
    await run.journal.append(entry, run.state.step, end=end, read=read)


def _request_record(prepared: Prepared, reserve: Reservation | None) -> RequestRecord:
    model, request, usage_id = prepared.model, prepared.request, prepared.usage_id
    return RequestRecord(
        attempt=usage_id.rpartition(":")[2],
        usage_id=usage_id,
        model=prepared.model_id,
        max_output=request.max_output_tokens,
        reserved=None if reserve is None else (reserve.tokens, reserve.money),
        name=request.model if request.model != model.name else "",
    )


def _attempt_operation(run: RunSession, prepared: Prepared, reserve: Reservation | None, prompt: int) -> Operation:
    return Operation(
        key=prepared.usage_id,
        scope=run.scope,
        run_id=run.id,
        kind="model_call",
        state="running",
        step=run.state.step,
        name=prepared.model_id,
        tokens=None if reserve is None else reserve.tokens,
        money=None if reserve is None else reserve.money,
        prompt=prompt,
    )
