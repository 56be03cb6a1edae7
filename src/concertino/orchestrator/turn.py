"""A turn of the loop: request, answer, calls, outcomes. Each phase takes the previous phase's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import ContextFloorError, HookError, ProviderError
from ..events import Audience, StepStarted, TextDelta, ToolDone, ToolFailed, ToolsSelected, TurnCompleted
from ..messages import AssistantMessage, ToolCall, ToolChoice, ToolMessage
from ..operations import ENDED
from ..providers.base import Model
from ..storage.base import Store
from ..tools.registry import ToolRegistry
from ..waits import MOST_WAITS
from .hooks import Hooks
from .journal.patterns import Redactor
from .journal.replay import OpenTurn
from .meter import at_limit
from .model_call.attempt import Attempt
from .model_call.call import ModelCall
from .model_call.request import TurnRequests
from .outcome import (
    CONTINUE,
    Continue,
    Fail,
    Finish,
    Limited,
    NextStep,
    Outcome,
    Special,
    StepOutcome,
    Suspend,
    Turn,
    end_by_result,
    result_message,
)
from .recorder import Prepared, record_answer
from .run import RunSession
from .tool_calls.context import Spawn
from .tool_calls.dispatch import INTERRUPTED, ToolCalls
from .tool_calls.tool_call import cut_off_call, known_call, known_calls


class TurnRunner:
    """Runs the turns of one run.

    `run` returns how the turn ended. Whatever it raises, every provider still accepts the conversation.
    """

    def __init__(self, run: RunSession, hooks: Hooks, requests: TurnRequests, spawn: Spawn) -> None:
        self._run = run
        self._hooks = hooks
        self._requests = requests
        self._spawn = spawn
        self._model_call = ModelCall(run, hooks, audience=run.audience)
        self._starts_early = hooks.config.start_tools_early and not hooks.selects_calls
        self._turn: Turn | None = None
        self._calls: ToolCalls | None = None
        self._native: frozenset[str] = frozenset()
        """The ids of the calls that are part of the turn's message."""
        self._added_before = 0
        self._taken = False
        """Whether the turn's results are part of the conversation."""

    async def run(self) -> StepOutcome:
        """Run one turn, or continue the turn that an earlier process left open."""
        run, opened = self._run, self._run.opened
        self._model_call.attempt = self._turn = self._calls = None
        self._taken = False
        self._added_before = len(run.added)
        try:
            if isinstance(opened, OpenTurn):
                outcome = await self._continue(opened)
            else:
                outcome = await self._new_turn()
        except BaseException:
            try:
                await self._stop()
            finally:  # also if a second cancellation ends the wait
                self._break_off()
            raise
        if isinstance(outcome, Suspend | Limited) or not self._hooks.after_step.own:
            return outcome
        return await self._hooks.after_step(run.context, outcome)

    async def _new_turn(self) -> StepOutcome:
        run = self._run
        if self._hooks.answer_without_model.own and run.opened is None:
            own = await self._hooks.answer_without_model(run.context)
            if own is not None:
                return await self._own_turn(own)
        prepared = await self._requests.prepare()
        if not isinstance(prepared, Prepared):
            return prepared
        attempt = await self._answer(prepared)
        run.context.logprobs = attempt.logprobs
        if self._hooks.review_answer.own and (refused := await self._review(attempt)) is not None:
            return refused
        turn = await self._interpret(attempt)
        calls, decision = await self._select(turn)
        await self._record(turn, calls, decision)
        if self._requests.job is not None:
            self._requests.start_summary(self._requests.job, attempt)
        outcome = await self._run_calls(calls, decision) if calls else decision
        return outcome if isinstance(outcome, Suspend) else await self._account(calls, outcome)

    async def _continue(self, opened: OpenTurn) -> StepOutcome:
        """Continue a turn whose answer is recorded: only its calls are left."""
        run = self._run
        run.opened = None
        self._added_before = opened.added_before
        self._turn = turn = Turn(opened.message, opened.calls)
        self._native = frozenset([call.id for call in opened.message.tool_calls])
        outcome: StepOutcome = opened.outcome
        if turn.calls:
            self._calls = calls = ToolCalls(run, self._hooks, self._spawn, again=True)
            self._plan(turn, calls, turn.calls)
            assert run.tree.store is not None
            assert run.tree.claim is not None
            await _restore(run, calls, opened, run.tree.store, sure=run.tree.claim.sure)
            outcome = await self._run_calls(turn.calls, outcome)
        return outcome if isinstance(outcome, Suspend) else await self._account(turn.calls, outcome)

    # -- request and answer --------------------------------------------------------------------------------------

    async def _answer(self, prepared: Prepared) -> Attempt:
        """Call the model. Raises `ProviderError` if no model answered."""
        self._run.emit(StepStarted, self._run.state.step, prepared.model_id)
        if not self._starts_early:
            return await self._model_call.answer(prepared, self._renew)
        return await self._model_call.answer(
            prepared, self._renew, on_ready=self._start_early, on_retry=self._drop_early
        )

    async def _renew(self, prepared: Prepared, model: Model, error: ProviderError) -> Prepared | None:
        try:
            return await self._requests.renew(prepared, model, error)
        except ContextFloorError as floor:
            raise error from floor

    def _start_early(self, ready: list[ToolCall]) -> None:
        """Start the calls that are complete while the model is still writing."""
        if self._calls is None:
            self._calls = ToolCalls(self._run, self._hooks, self._spawn)
        attempt = self._model_call.attempt
        if attempt is not None and not attempt.answered and not self._refused(ready)[1]:
            self._calls.start_early(ready)

    async def _drop_early(self) -> None:
        """Stop calls that started early: they belong to an answer that does not count."""
        if self._calls is not None:
            await self._calls.stop(self._run.tree.patience)
            self._calls = None

    async def _review(self, attempt: Attempt) -> StepOutcome | None:
        """Let the agent judge the answer before anyone sees it. Return a decision made instead of it, or None."""
        reviewed = await self._hooks.review_answer(self._run.context, attempt.message)
        if isinstance(reviewed, AssistantMessage):
            attempt.release(reviewed)
            return None
        self._requests.observe(attempt)
        self._taken = True  # nothing of the answer enters the conversation
        return await self._account((), self._apply(reviewed))

    async def _interpret(self, attempt: Attempt) -> Turn:
        run = self._run
        self._requests.observe(attempt)
        message = attempt.message
        turn = Turn(message, attempt.calls)
        if self._hooks.interpret_response.own:
            turn = await self._hooks.interpret_response(run.context, message)
            if run.redactor is not None:
                turn = _redacted(turn, run.redactor)
        calls = attempt.calls if turn.message is message else turn.message.tool_calls
        for call in calls if turn.calls is calls else (*calls, *turn.calls):
            if call.name not in run.registry.by_name:
                turn = _known(turn, run.registry)
                calls = turn.message.tool_calls
                break
        self._turn = turn
        if turn.message.parts:  # no provider accepts an empty message
            run.add(turn.message)
        run.state.text = turn.message.text
        self._native = frozenset([call.id for call in calls])
        run.call_ids |= self._native
        if self._calls is not None and not self._calls.keeps_early(turn.calls):
            await self._drop_early()
        if turn.audience is None:
            run.emit(TurnCompleted, turn.message, run.audience, attempt.usage_id)
        else:
            self._complete(turn, turn.audience, attempt.usage_id)
        return turn

    async def _own_turn(self, turn: Turn) -> StepOutcome:
        """Run a turn that the agent has written in place of a model's answer."""
        run = self._run
        run.state.step += 1
        run.emit(StepStarted, run.state.step, "")
        if run.redactor is not None:
            turn = _redacted(turn, run.redactor)
        self._turn = turn = _known(turn, run.registry)
        self._native = frozenset([call.id for call in turn.message.tool_calls])
        run.call_ids |= self._native
        run.state.text = turn.message.text
        if turn.message.parts:
            run.add(turn.message)
            self._complete(turn, turn.audience or run.audience, "")
        calls, decision = await self._select(turn, own=True)
        await self._record(turn, calls, decision, own=True)
        outcome = await self._run_calls(calls, decision) if calls else decision
        return outcome if isinstance(outcome, Suspend) else await self._account(calls, outcome)

    def _complete(self, turn: Turn, audience: Audience, attempt: str) -> None:
        """Send the message of *turn* to the readers that the agent chose; only a root run answers the user."""
        run = self._run
        if audience == "internal":
            run.state.text = ""
        elif audience == "answer" and run.parent is not None:
            audience = "draft"
        if audience != run.audience or not attempt:  # its readers have had no pieces
            run.emit(TextDelta, turn.message.text, audience, None, attempt)
        run.emit(TurnCompleted, turn.message, audience, attempt)

    async def _select(self, turn: Turn, *, own: bool = False) -> tuple[Sequence[ToolCall], NextStep]:
        """Return the calls to run, and how the turn ends as far as the answer alone decides it.

        The agent is not asked about its *own* turn.
        """
        run, state, hooks = self._run, self._run.state, self._hooks
        calls: Sequence[ToolCall] = turn.calls
        if calls and hooks.process_tool_calls.own and not own:
            decision = await hooks.process_tool_calls(run.context, calls)
            if isinstance(decision, Continue | Finish | Fail):
                self._answer_unrun(turn, "not run: the agent decided otherwise")
                state.has_tool_calls = isinstance(decision, Continue)
                return (), self._apply(decision)
            calls = decision
            self._answer_unrun(turn, "not run: the agent left this call out", but=calls)
        state.has_tool_calls = bool(calls)
        if calls:
            count, meter = len(calls), run.meter
            if (
                (count > 1 and count > run.limits.tool_calls - state.iteration)
                or meter.tool_calls + count > meter.most_tool_calls
                or state.step == state.last_step
            ):
                calls = self._refuse(calls)
                if not calls:
                    return calls, CONTINUE  # the model has called, and reads why nothing was run
            if hooks.watches_selection:
                hooks.observe_selection(run.context, calls)
            if hooks.config.enable_global_context_update:
                run.tree.content_index += 1
            return calls, CONTINUE
        if own or turn.message.stop_reason == "pause":
            state.has_tool_calls = True  # the provider's own tools are at work: it continues with the next request
            return calls, CONTINUE
        decide = hooks.on_no_tool_calls
        return calls, self._apply(await decide(run.context) if decide.own else decide.default(run.context))

    def _refused(self, calls: Sequence[ToolCall]) -> tuple[int, str]:
        """Return how many of *calls* the limits allow, and why not the others; no reason if all may run.

        The agent's own limit allows one call in each step that the agent takes: it may end with a call.
        """
        run, attempt = self._run, self._model_call.attempt
        meter, state = run.meter, run.state
        if state.step == state.last_step and attempt is not None and attempt.request.tool_choice == "none":
            return 0, "this is the last step, and it may call no tools"
        own, left = max(run.limits.tool_calls - state.iteration, 1), meter.most_tool_calls - meter.tool_calls
        for index, call in enumerate(calls):
            tool = run.registry.get(call.name)
            own -= tool is None or tool.counts_as_iteration
            if own < 0:
                return index, f"the limit of {run.limits.tool_calls:,} tool calls is reached"
            if index >= left:
                return index, meter.sentence("all_tool_calls")
        return len(calls), ""

    def _refuse(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        """Answer the calls that the limits do not allow without running them, and return the others."""
        allowed, why = self._refused(calls)
        if self._calls is not None:
            allowed = max(allowed, len(self._calls))  # these have started early
        for call in calls[allowed:]:
            outcome = Outcome(call, f"not run: {why}", is_error=True)
            self._run.add(result_message(outcome, native=call.id in self._native))
        return calls[:allowed]

    def _apply(self, decision: NextStep) -> NextStep:
        if isinstance(decision, Continue):
            self._run.apply(decision)
            self._run.state.has_tool_calls = True
            return CONTINUE
        return decision

    async def _record(self, turn: Turn, calls: Sequence[ToolCall], outcome: NextStep, *, own: bool = False) -> None:
        """Record the answer before any call runs, except early calls, which only read."""
        if calls:
            self._calls = self._calls or ToolCalls(self._run, self._hooks, self._spawn)
            self._plan(turn, self._calls, calls)
        if self._run.journal.on:
            await record_answer(self._run, turn, tuple(calls), outcome, own=own)

    def _plan(self, turn: Turn, calls: ToolCalls, selected: Sequence[ToolCall]) -> None:
        cut_off = cut_off_call(turn.message) if turn.message.stop_reason == "length" else None
        calls.plan(selected, self._native, cut_off)

    # -- calls and outcomes --------------------------------------------------------------------------------------

    async def _run_calls(self, selected: Sequence[ToolCall], outcome: StepOutcome) -> StepOutcome:
        calls = self._calls
        assert calls is not None
        self._run.emit(ToolsSelected, tuple(selected))
        suspended = await calls.run()
        return await self._take(calls, outcome) if suspended is None else suspended

    async def _take(self, calls: ToolCalls, outcome: StepOutcome) -> StepOutcome:
        """Append the outcomes to the conversation, and set what the next step must know of them."""
        run, state = self._run, self._run.state
        outcomes = calls.outcomes()
        choice = await self._special_results(outcomes) if self._hooks.handle_special_tools.own else None
        self._add_results(calls, outcomes)
        failed = [result for result in outcomes if result.is_error]
        state.errored_tools = tuple([run.tool_name(result.call.name) for result in failed]) if failed else ()
        for result in outcomes:
            if result.data is not None and result.stored:
                run.keep_data(result.call.name, result.data)
            if result.ends_run:
                outcome = end_by_result(outcomes) or outcome
        if self._hooks.config.enable_global_context_update:
            run.tree.content_index += 1
        if choice is not None:
            state.tool_choice = choice
        disabled = [result.call for result in failed if result.not_enabled] if failed else []
        state.disabled_tools = tuple([call.name for call in disabled]) if disabled else ()
        if disabled:
            decision = self._apply(await self._hooks.on_tools_disabled(run.context, disabled))
            return outcome if isinstance(decision, Continue) else decision
        return outcome

    async def _special_results(self, outcomes: Sequence[Outcome]) -> ToolChoice | None:
        """Let the agent change results and conversation, and return the tool choice that it wants next."""
        choice: ToolChoice | None = None
        for outcome in outcomes:
            content = outcome.content
            try:
                special = await self._hooks.handle_special_tools(self._run.context, outcome.call, outcome)
            except HookError as error:
                raise error.during(outcome.call.name, outcome.call.id)  # noqa: B904 - the same error
            if special is not None:
                self._change(special, outcome)
                choice = special.tool_choice or choice
            outcome.replaced = outcome.content != content
        return choice

    def _change(self, special: Special, outcome: Outcome) -> None:
        if special.result is not None:
            outcome.whole = outcome.whole if outcome.whole is not None else outcome.content
            outcome.content = special.result
        if special.withhold:
            outcome.whole = outcome.summary = outcome.data = None
            outcome.media, outcome.handle = (), ""
            call = outcome.call  # readers have seen the result
            if outcome.is_error:
                self._run.emit(ToolFailed, call.id, call.name, outcome.content, True)
            else:
                self._run.emit(ToolDone, call.id, call.name, outcome.content, None, outcome.stored, (), None, True)
        if special.messages is not None:
            # The current turn's message stays: its results follow it.
            self._run.replace(special.messages)

    def _add_results(self, calls: ToolCalls | None, outcomes: Sequence[Outcome]) -> None:
        run = self._run
        for outcome in outcomes:
            is_native = outcome.call.id in self._native
            if outcome.progress and is_native and run.journal.on:
                run.journal.progress(outcome.call.id, outcome.progress)
            run.add(result_message(outcome, native=is_native, cards=run.registry.takes_cards))
        if calls is not None:
            calls.close()
        self._taken = True

    def _answer_unrun(self, turn: Turn, why: str, but: Sequence[ToolCall] = ()) -> None:
        """Give every call that does not run a result: no provider accepts a call without one."""
        kept = {call.id for call in but}
        for call in turn.message.tool_calls:
            if call.id not in kept:
                self._run.add(ToolMessage(call.id, call.name, why, is_error=True))

    # -- accounting ----------------------------------------------------------------------------------------------

    async def _account(self, calls: Sequence[ToolCall], outcome: StepOutcome) -> StepOutcome:
        """Count the iterations, and let the agent decide when its limit is reached."""
        run, state = self._run, self._run.state
        if not calls:
            state.iteration += 1
        for call in calls:
            tool = run.registry.by_name.get(call.name)
            if tool is None or tool.counts_as_iteration:
                state.iteration += 1
        last = run.limits.tool_calls - 1
        if not state.has_tool_calls or state.limit is not None or state.iteration < last:
            return outcome
        if not isinstance(outcome, Continue):
            return outcome
        why = f"the limit of {run.limits.tool_calls} tool calls is reached"
        decision = await at_limit(run, self._hooks, "tool_calls", why, state.step + 1)
        if isinstance(decision, Continue):
            state.iteration = last  # exactly one more step
            return outcome
        return decision

    # -- breaking off --------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """End the calls that are running, and add them to the receipt."""
        if self._calls is not None:
            try:
                await self._calls.stop(self._run.tree.patience)
            finally:
                self._calls.note_stopped()

    def _break_off(self) -> None:
        """Complete the conversation: partial text is kept, and each call has a result."""
        run = self._run
        attempt = self._model_call.attempt
        turn = self._turn
        if run.tree.parked or self._taken or (turn is None and attempt is None):
            return  # a parked run is resumed from its journal
        if turn is None:
            assert attempt is not None
            message = known_calls(attempt.message, run.registry)
            if self._hooks.review_answer.own:  # it was not judged
                return
            turn = Turn(message, message.tool_calls)
            if message.parts:
                run.add(message)
                run.emit(TurnCompleted, message, run.audience, attempt.usage_id)
                if run.turn_output is run.output:  # otherwise it is JSON for the agent alone
                    run.state.text = message.text
        outcomes = [Outcome(call, INTERRUPTED, is_error=True) for call in turn.message.tool_calls]
        calls = self._calls if self._calls is not None and self._calls.started else None
        if calls is not None:
            outcomes = calls.outcomes()
        answered = {m.call_id for m in run.added[self._added_before :] if isinstance(m, ToolMessage)}
        self._native = frozenset([call.id for call in turn.message.tool_calls])
        self._add_results(calls, [outcome for outcome in outcomes if outcome.call.id not in answered])


def _redacted(turn: Turn, redactor: Redactor) -> Turn:
    return replace(turn, message=redactor.message(turn.message), calls=tuple(map(redactor.call, turn.calls)))


def _known(turn: Turn, registry: ToolRegistry) -> Turn:
    """Return *turn* without names of tools that do not exist, which are text."""
    calls = tuple([known_call(each, registry) for each in turn.calls])
    return replace(turn, message=known_calls(turn.message, registry), calls=calls)


async def _restore(run: RunSession, calls: ToolCalls, opened: OpenTurn, store: Store, *, sure: bool) -> None:
    """Give each call of a resumed turn its stored operation, and the answer that arrived meanwhile."""
    operations = {each.key: each for each in opened.operations if each.kind == "tool_call"}
    waits = list(opened.waits)
    if any(each.state == "running" and each.remote for each in operations.values()):
        # Its answer may have come since `resume` read them; of waiting calls, answers are looked for later too.
        read = await store.operations(run.scope, run_id=run.id)
        operations = {each.key: each for each in read if each.kind == "tool_call"}
        waits = list(await store.waits(run.scope, run_id=run.id, open=False, limit=MOST_WAITS))
    known = {wait.key for wait in waits}
    for key, operation in operations.items():
        if operation.state in ENDED and operation.outcome is None and key not in known:
            wait = await store.wait(run.scope, key)  # answered before the call was recorded as waiting
            if wait is not None:
                waits.append(wait)
    calls.restore(operations, waits, opened.ending, sure=sure)
