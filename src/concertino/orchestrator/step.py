"""One step: ask the model, read its turn, run its tools, account, record."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ..events import (
    RunEvent,
    StepStarted,
    ToolDone,
    ToolFailed,
    ToolProgress,
    ToolsSelected,
    ToolStarted,
    ToolStreamed,
    TurnCompleted,
)
from ..messages import AssistantMessage, ToolCall, ToolChoice, ToolMessage, UserMessage
from ..providers.port import Model, ModelRequest
from .asking import Asking
from .call import SpawnFor
from .dispatch import INTERRUPTED, NOT_ENABLED, Dispatch
from .hooks import Hooks
from .outcome import Finish, GoOn, NoCallsReason, Outcome, Special, StepOutcome, Turn
from .run import Run

_TOOL_EVENTS = (ToolStarted, ToolProgress, ToolStreamed, ToolDone, ToolFailed)


class Step:
    """One turn of the loop. Iterate `events`; then `outcome` says how it ended."""

    def __init__(self, run: Run[Any], hooks: Hooks, spawn: SpawnFor) -> None:
        self._run = run
        self._hooks = hooks
        self._spawn = spawn
        self._watches = hooks.has_own("on_tool_progress")
        self._answered = False
        self.outcome: StepOutcome = GoOn()

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        """The step's events, as they happen."""
        run = self._run
        run.state.step += 1
        model = await self._model()
        request = await self._request(model)
        yield StepStarted(run.id, run.path, run.index.value, run.state.step, f"{model.provider}:{model.name}")
        asking = Asking(run, self._hooks, model, request)
        turn: Turn | None = None
        dispatch: Dispatch | None = None
        before = len(run.added)
        try:
            async for chunk in asking.chunks:
                if (piece := asking.take(chunk)) is not None:
                    yield piece
            yield await asking.settle()
            await asking.close()
            turn = await self._read(asking.message)
            yield TurnCompleted(run.id, run.path, run.index.value, turn.message)
            calls = await self._selected(turn)
            await run.recorder.append()  # the answer is on record before any tool runs
            if calls:
                yield ToolsSelected(run.id, run.path, run.index.value, tuple(calls))
                dispatch = Dispatch(run, self._hooks, calls, self._spawn)
                dispatch.start()
                while (news := await run.mailbox.next()) is not None:
                    if self._watches:
                        await self._tell(news)
                    yield news
                await run.mailbox.stop()
                await self._take(turn, dispatch)
                await run.recorder.append()  # and the outcomes before the next model call
            await self._account(calls)
        except BaseException:
            try:
                await asking.close()
                await run.mailbox.stop()
            finally:  # also where a second cancellation ends the wait
                self._break_off(asking.message, turn, dispatch, before)
            raise
        if self._hooks.has_own("after_step"):
            self.outcome = await self._hooks.ask("after_step", run, self.outcome)

    def _break_off(self, message: AssistantMessage, turn: Turn | None, dispatch: Dispatch | None, before: int) -> None:
        """Leave a conversation that every provider takes: partial text is kept, and each call has a result."""
        run = self._run
        if turn is None:
            turn = Turn(message, message.tool_calls)
            if message.parts:
                run.add(message)
                run.state.text = message.text
        if self._answered:
            return
        outcomes = [Outcome(call, INTERRUPTED, is_error=True) for call in turn.message.tool_calls]
        if dispatch is not None:
            outcomes = dispatch.outcomes()
        unrun = {added.call_id for added in run.added[before:] if isinstance(added, ToolMessage)}
        self._add_results(turn, [outcome for outcome in outcomes if outcome.call.id not in unrun])

    # -- asking --------------------------------------------------------------------------------------------------

    async def _model(self) -> Model:
        run = self._run
        if not self._hooks.has_own("get_model_id"):
            return run.model
        return run.chat.find_model(await self._hooks.ask("get_model_id", run))

    async def _request(self, model: Model) -> ModelRequest:
        run = self._run
        tools = run.registry.specs()
        send = bool(tools) and await self._hooks.ask("should_send_tools", run)
        choice = run.state.tool_choice if send else "none"
        if not send and not run.calls_in_history:
            tools = ()  # else they stay: providers refuse a history with calls of tools that nobody declares
        messages = run.window.view(run.fixed(), run.limits.output)
        if run.window.trimmed > run.unsent:
            run.unsent = run.window.trimmed
            run.notify("context_trimmed", f"the model no longer sees the oldest {run.unsent:,} messages")
        request = ModelRequest(
            model=model.name,
            system=run.system,
            messages=messages,
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=self._hooks.config.use_parallel_tools and run.limits.parallel_tools > 1,
            max_output_tokens=run.limits.output,
        )
        run.state.tool_choice = "auto"
        if self._hooks.has_own("build_request"):
            request = await self._hooks.ask("build_request", run, request)
        return request

    # -- reading -------------------------------------------------------------------------------------------------

    async def _read(self, message: AssistantMessage) -> Turn:
        run = self._run
        turn = Turn(message, message.tool_calls)
        if self._hooks.has_own("interpret_response"):
            turn = await self._hooks.ask("interpret_response", run, message)
        if turn.message.parts:  # no provider takes an empty message back
            run.add(turn.message)
        run.state.text = turn.message.text
        run.calls_in_history = run.calls_in_history or bool(turn.message.tool_calls)
        return turn

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

    # -- tools ---------------------------------------------------------------------------------------------------

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
                run.data[outcome.call.name] = outcome.data
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
            self._run.window.replace([*special.messages, self._run.messages[-1]])

    def _add_results(self, turn: Turn, outcomes: Sequence[Outcome]) -> None:
        self._answered = True
        native = {call.id for call in turn.message.tool_calls}
        for outcome in outcomes:
            call = outcome.call
            if call.id not in native:
                self._run.add(UserMessage(f"[result of {call.name}]\n{outcome.content}"))
                continue
            if outcome.progress:
                self._run.recorder.progress(call.id, outcome.progress)
            self._run.add(
                ToolMessage(
                    call.id,
                    call.name,
                    outcome.content,
                    outcome.is_error,
                    outcome.whole,
                    outcome.summary,
                )
            )

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
