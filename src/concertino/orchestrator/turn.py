"""One step: ask the model, read its turn, run its tools, account, record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ..errors import ConfigurationError, ContextFloorError, ProviderError
from ..events import (
    AttemptFailed,
    CacheMiss,
    RunEvent,
    StepStarted,
    StoppedWork,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolsSelected,
    ToolStarted,
    ToolStreamed,
    TurnCompleted,
)
from ..messages import AssistantMessage, ToolCall, ToolChoice, ToolMessage
from ..waits import Wait
from .hooks import Hooks
from .journal.replay import OpenTurn
from .lifecycle.recorder import note_answer, note_outcomes
from .lifecycle.repair import INTERRUPTED, result_message
from .model_call.attempt import Asking
from .model_call.request import Asked, Requesting
from .model_call.retry import Attempts
from .outcome import Finish, GoOn, NoCallsReason, Outcome, Special, StepOutcome, Suspend, Turn
from .run import Run
from .tool_calls.call import NOT_ENABLED
from .tool_calls.context import SpawnFor
from .tool_calls.dispatch import Dispatch

_TOOL_EVENTS = (ToolStarted, ToolProgress, ToolStreamed, ToolDone, ToolFailed)


class Step:
    """One turn of the loop. Iterate `events`; then `outcome` says how it ended.

    A run that was taken up has left something open, a request or a turn: the step goes on with that.
    """

    __slots__ = (
        "_answered",
        "_asked",
        "_asking",
        "_attempts",
        "_dispatch",
        "_hooks",
        "_next",
        "_requesting",
        "_run",
        "_spawn",
        "_starts_early",
        "_turn",
        "_watches",
        "outcome",
    )

    def __init__(self, run: Run[Any], hooks: Hooks, spawn: SpawnFor) -> None:
        self._run = run
        self._hooks = hooks
        self._spawn = spawn
        self._watches = hooks.has_own("on_tool_progress")
        self._starts_early = hooks.config.start_tools_early
        self._answered = False
        self._asking: Asking | None = None
        self._turn: Turn | None = None
        self._requesting: Requesting | None = None
        self._asked: Asked | None = None
        self._attempts: Attempts | None = None
        self._next: tuple[str, float] | None = None
        self._dispatch: Dispatch | None = None
        self.outcome: StepOutcome = GoOn()

    async def events(self) -> AsyncGenerator[RunEvent, None]:  # noqa: C901, PLR0912, PLR0915 - a second generator is dear
        """The step's events, as they happen."""
        run = self._run
        opened, before = run.opened, len(run.added)
        calls: Sequence[ToolCall] = ()
        begun: Sequence[int] = ()
        try:
            if isinstance(opened, OpenTurn):
                run.opened, before = None, opened.at
                calls = self._take_up(opened)
            elif (asking := await self._ask()) is not None:
                for event in run.mailbox.drain():
                    yield event
                yield StepStarted(run.id, run.path, run.index.value, run.state.step, asking.model_id)
                while True:
                    try:
                        async for chunk in asking.chunks:
                            if (piece := asking.take(chunk)) is not None:
                                yield piece
                            if self._starts_early and asking.ready:
                                for event in self._start_early(asking):
                                    yield event
                        yield await asking.settle()
                        break
                    except ProviderError as error:
                        yield await self._failed(asking, error)
                        asking = await self._ask_again(asking, error)
                await asking.close()
                turn = await self._read(asking)
                for event in run.mailbox.drain():
                    yield event
                yield TurnCompleted(run.id, run.path, run.index.value, turn.message)
                calls = await self._selected(turn)
                begun = await self._note_answer(turn, calls)
                self._summarise()
            if calls:
                yield ToolsSelected(run.id, run.path, run.index.value, tuple(calls))
                dispatch = self._dispatch
                assert dispatch is not None
                dispatch.start(calls, begun, await self._waits() if dispatch.again else None)
                working = True
                while working:
                    while (news := await run.mailbox.next()) is not None:
                        if self._watches:
                            await self._tell(news)
                        yield news
                    working = await self._end_work(calls)
            if not isinstance(self.outcome, Suspend) and self._turn is not None:
                await self._account(calls)
        except BaseException:
            try:
                await self._leave()
            finally:  # also where a second cancellation ends the wait
                self._break_off(before)
            raise
        if self._hooks.has_own("after_step") and not isinstance(self.outcome, Suspend):
            self.outcome = await self._hooks.ask("after_step", run, self.outcome)

    # -- asking --------------------------------------------------------------------------------------------------

    async def _ask(self) -> Asking | None:
        """Ask the model. Where a budget leaves no room for that, the step ends instead, as the agent wants it."""
        requesting = Requesting(self._run, self._hooks)
        asked = await requesting.on_record()
        if asked is None:
            self.outcome = requesting.outcome
            return None
        self._requesting, self._asked = requesting, asked
        self._asking = Asking(self._run, self._hooks, *asked)
        return self._asking

    async def _failed(self, asking: Asking, error: ProviderError) -> AttemptFailed:
        """Book an attempt that failed, and decide what comes next. Raises *error* if nothing does."""
        run = self._run
        await asking.close(error)
        if self._attempts is None:
            self._attempts = Attempts(run.chat.retry, run.chat.fallback, self._opens)
        self._next = self._attempts.after(error, asking.model_id, seen=asking.seen)
        if self._next is None:
            raise error
        model, seconds = self._next
        told = f"{type(error).__name__}: {error}"
        return AttemptFailed(run.id, run.path, run.index.value, asking.model_id, told, model, seconds)

    def _opens(self, model: str) -> bool:
        """Whether a fallback can be asked at all. Why one cannot is told, and the next one is tried."""
        try:
            self._run.chat.find_model(model)
        except ConfigurationError as error:
            self._run.notify("not_sent", f"not sent to {model}, which cannot be opened: {error}")
            return False
        return True

    async def _ask_again(self, asking: Asking, error: ProviderError) -> Asking:
        assert self._next is not None
        assert self._asked is not None
        assert self._requesting is not None
        model, seconds = self._next
        if self._dispatch is not None:  # what began early belongs to an answer that does not count
            await self._run.mailbox.stop(self._run.tree.patience)
            self._dispatch = None
        await asyncio.sleep(seconds)
        try:
            asked = await self._requesting.again(self._asked, model, error)
        except ContextFloorError as floor:
            raise error from floor
        if asked is None:
            raise error
        self._asked = asked
        self._asking = Asking(self._run, self._hooks, *asked)
        return self._asking

    def _start_early(self, asking: Asking) -> Sequence[RunEvent]:
        """Begin the calls that are complete while the model is still writing; what the tools have told by now."""
        hooks = self._hooks
        if hooks.has_own("interpret_response") or hooks.has_own("process_tool_calls"):
            return []  # these decide which calls run
        self._dispatch = self._dispatch or Dispatch(self._run, hooks, self._spawn)
        if not asking.answered:
            self._dispatch.start_early(asking.ready)
        return self._run.mailbox.drain()

    def _summarise(self) -> None:
        """Begin to make the summary that will be needed, now that what was sent is in the provider's cache."""
        assert self._requesting is not None
        assert self._asked is not None
        job, self._requesting.job = self._requesting.job, None
        if job is not None:
            self._run.summaries.start(job, *self._asked[:2])

    # -- reading -------------------------------------------------------------------------------------------------

    async def _read(self, asking: Asking) -> Turn:
        run = self._run
        self._observe(asking)
        turn = Turn(asking.message, asking.message.tool_calls)
        if self._hooks.has_own("interpret_response"):
            turn = await self._hooks.ask("interpret_response", run, asking.message)
        self._turn = turn
        run.cut_off = _cut_off(turn.message)
        if turn.message.parts:  # no provider takes an empty message back
            run.add(turn.message)
        run.state.text = turn.message.text
        run.call_ids.update([call.id for call in turn.message.tool_calls])
        if self._dispatch is not None and not self._dispatch.kept_early(turn.calls):
            await run.mailbox.stop(run.tree.patience)
            self._dispatch = None
        return turn

    def _observe(self, asking: Asking) -> None:
        """Compare what the provider says of the request with what was expected of it."""
        run, asked, requesting = self._run, self._asked, self._requesting
        assert asked is not None
        assert requesting is not None
        if asking.tokens is None or requesting.own_messages or not requesting.planned:
            return
        request = asked[1]
        if asking.model_id != requesting.model:
            return  # another one has answered in its stead
        choice, schema = request.tool_choice, request.output_schema
        settings: tuple[object, ...] = (choice, request.effort, request.parallel_tool_calls, schema, request.extra)
        if request.system is not run.system or request.tools is not run.registry.specs():
            settings += (request.system, request.tools)  # an agent's own
        miss = run.window.observe(asking.tokens, settings)
        if miss is not None:
            told = (asking.model_id, miss.reason, miss.expected, miss.cached)
            run.mailbox.put(CacheMiss(run.id, run.path, run.index.value, *told))

    def _take_up(self, opened: OpenTurn) -> tuple[ToolCall, ...]:
        """Go on with a turn whose answer is on record."""
        self._turn = Turn(opened.message, opened.calls)
        self._run.cut_off = _cut_off(opened.message)
        self.outcome = opened.outcome
        self._dispatch = Dispatch(self._run, self._hooks, self._spawn, opened)
        return opened.calls

    async def _note_answer(self, turn: Turn, calls: Sequence[ToolCall]) -> list[int]:
        """The answer is on record before any tool runs, but for those that only read. The places of the calls that it
        says begin now."""
        begun: list[int] = []
        if calls:
            self._dispatch = self._dispatch or Dispatch(self._run, self._hooks, self._spawn)
            self._dispatch.count(calls)
            begun = self._dispatch.begun_at_once(calls) if self._run.journal.on else []
        if self._run.journal.on:
            await note_answer(self._run, turn, tuple(calls), self.outcome, begun)
        return begun

    async def _selected(self, turn: Turn) -> Sequence[ToolCall]:
        """The calls to run; sets the outcome where the step ends without any."""
        run, state = self._run, self._run.state
        calls: Sequence[ToolCall] = turn.calls
        if calls and self._hooks.has_own("process_tool_calls"):
            decision = await self._hooks.ask("process_tool_calls", run, calls)
            if isinstance(decision, Finish):
                self._answer_unrun(turn, "not run: the agent has ended the run")
                self.outcome = decision
                state.has_tool_calls = False
                return ()
            calls = decision
            self._answer_unrun(turn, "not run: the agent left this call out", but=calls)
        state.has_tool_calls = bool(calls)
        if not calls and turn.message.stop_reason == "pause":
            state.has_tool_calls = True  # the provider's own tools are at work: it goes on when it is asked again
            return calls
        if not calls:
            await self._no_calls("NO_CALLS_GENERATED", ())
            return calls
        if self._hooks.has_own("on_tools_selected"):
            await self._hooks.ask("on_tools_selected", run, calls)
        self._advance_index()
        return calls

    def _answer_unrun(self, turn: Turn, why: str, but: Sequence[ToolCall] = ()) -> None:
        """Every call in the conversation gets a result, or no provider would take it again."""
        kept = {call.id for call in but}
        for call in turn.message.tool_calls:
            if call.id not in kept:
                self._run.add(ToolMessage(call.id, call.name, why, is_error=True))

    async def _no_calls(self, reason: NoCallsReason, calls: Sequence[ToolCall]) -> None:
        """Ask the agent what to do, and do it."""
        run = self._run
        decision = await self._hooks.ask("on_no_tool_calls", run, reason, calls)
        match decision:
            case GoOn():
                run.prepare_next(decision)
                run.state.has_tool_calls = True
            case True:
                run.state.has_tool_calls = True
            case False:
                self.outcome = Finish()
            case Finish():
                self.outcome = decision

    # -- breaking off --------------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """End what is going on, and say for the receipt what became of it."""
        run = self._run
        if (asking := self._asking) is not None and self._turn is None:
            await asking.close()
            if not asking.answered:
                run.tree.note_stopped("stopped", StoppedWork(agent_path=run.path, what="model", name=asking.model_id))
        await run.mailbox.stop(run.tree.patience)
        if self._dispatch is not None:
            self._dispatch.note_stopped()

    def _break_off(self, before: int) -> None:
        """Leave a conversation that every provider takes: partial text is kept, and each call has a result."""
        run = self._run
        if run.tree.parked or self._answered or (self._turn is None and self._asking is None):
            return  # what is parked is taken up as the journal has it
        turn = self._turn
        if turn is None:
            assert self._asking is not None
            message = self._asking.message
            turn = Turn(message, message.tool_calls)
            if message.parts:
                run.add(message)
                run.state.text = message.text
        outcomes = [Outcome(call, INTERRUPTED, is_error=True) for call in turn.message.tool_calls]
        if self._dispatch is not None and self._dispatch.started:
            outcomes = self._dispatch.outcomes()
        unrun = {added.call_id for added in run.added[before:] if isinstance(added, ToolMessage)}
        self._add_results(turn, [outcome for outcome in outcomes if outcome.call.id not in unrun])

    # -- tools ---------------------------------------------------------------------------------------------------

    async def _end_work(self, calls: Sequence[ToolCall]) -> bool:
        """All that could be done is done. Whether there is more now, because what was waited for has come; else the
        outcomes are taken, or the step suspends."""
        run, dispatch, turn = self._run, self._dispatch, self._turn
        assert dispatch is not None
        assert turn is not None
        if not dispatch.waits:
            await self._take(turn, dispatch)
            return False
        waits = await self._waits()
        if dispatch.may_go_on(waits):
            dispatch.start(calls, waits=waits)
            return True
        await note_outcomes(run, dispatch.unrecorded(), suspended=True)
        self.outcome = Suspend(dispatch.open_keys())
        return False

    async def _waits(self) -> dict[str, Wait]:
        store = self._run.tree.store
        if store is None:
            return {}
        waits = {wait.key: wait for wait in await store.waits(run_id=self._run.id, open=False, limit=10_000)}
        if self._dispatch is not None and self._dispatch.again:
            for place in range(len(self._turn.calls if self._turn else ())):
                key = self._run.call_key(place)  # its answer may have come before it was known to wait
                if key not in waits and (early := await store.wait(key)) is not None:
                    waits[key] = early
        return waits

    async def _tell(self, event: RunEvent) -> None:
        if event.run_id == self._run.id and isinstance(event, _TOOL_EVENTS):
            await self._hooks.ask("on_tool_progress", self._run, event)

    async def _take(self, turn: Turn, dispatch: Dispatch) -> None:
        """Put the outcomes into the conversation, and into the state what the next step must know of them."""
        run, state = self._run, self._run.state
        outcomes = dispatch.outcomes()
        choice = await self._specials(outcomes)
        self._add_results(turn, outcomes)
        failed = [outcome for outcome in outcomes if outcome.is_error]
        state.errored_tools = tuple([outcome.call.name for outcome in failed])
        for outcome in outcomes:
            if outcome.data is not None:
                run.keep_data(outcome.call.name, outcome.data)
        self._advance_index()
        if choice is not None:
            state.tool_choice = choice
        disabled = [outcome.call for outcome in failed if outcome.content == NOT_ENABLED]
        state.disabled_tools = tuple([call.name for call in disabled])
        if disabled:
            await self._no_calls("TOOLS_DISABLED", disabled)

    def _advance_index(self) -> None:
        if self._hooks.config.enable_global_context_update:
            self._run.index.advance()

    async def _specials(self, outcomes: Sequence[Outcome]) -> ToolChoice | None:
        """Let the agent change results and conversation; the tool choice that it wants next."""
        choice: ToolChoice | None = None
        if self._hooks.has_own("handle_special_tools"):
            for outcome in outcomes:
                special = await self._hooks.ask("handle_special_tools", self._run, outcome.call, outcome)
                if special is not None:
                    self._apply(special, outcome)
                    choice = special.tool_choice or choice
        return choice

    def _apply(self, special: Special, outcome: Outcome) -> None:
        if special.result is not None:
            outcome.whole = outcome.whole if outcome.whole is not None else outcome.content
            outcome.content = special.result
        if special.messages is not None:
            # The turn that called this tool stays: its results follow it.
            self._run.replace(special.messages)

    def _add_results(self, turn: Turn, outcomes: Sequence[Outcome]) -> None:
        self._answered = True
        native = {call.id for call in turn.message.tool_calls}
        for outcome in outcomes:
            is_native = outcome.call.id in native
            if outcome.progress and is_native and self._run.journal.on:
                self._run.journal.progress(outcome.call.id, outcome.progress)
            self._run.add(result_message(outcome, native=is_native))

    # -- accounting ----------------------------------------------------------------------------------------------

    async def _account(self, calls: Sequence[ToolCall]) -> None:
        """Count the iterations, and tell the agent when its limit is reached."""
        run, state = self._run, self._run.state
        for call in calls:
            tool = run.registry.get(call.name)
            if tool is None or tool.counts_as_iteration:
                state.iteration += 1
        if not calls:
            state.iteration += 1
        last = run.limits.tool_calls - 1
        if not state.has_tool_calls or state.limit_reached or state.iteration < last:
            return
        if not isinstance(self.outcome, GoOn):
            return
        state.limit_reached = True
        run.notify("limit_reached", f"the limit of {run.limits.tool_calls} tool calls is reached")
        await self._no_calls("LIMIT_REACHED", calls)
        if isinstance(self.outcome, GoOn):
            state.iteration = last  # room for exactly one more step


def _cut_off(message: AssistantMessage) -> ToolCall | None:
    """The call at the end of *message* whose arguments are not complete, because the answer reached its limit."""
    if message.stop_reason != "length" or not message.tool_calls or message.parts[-1] is not message.tool_calls[-1]:
        return None
    call = message.tool_calls[-1]
    try:
        complete = isinstance(json.loads(call.arguments), dict)
    except ValueError:
        complete = False
    return None if complete else call
