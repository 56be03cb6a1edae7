"""A tool call of a turn: its operation, its execution and its outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import ToolError, error_text
from ...events import StoppedWork
from ...ids import call_key, handle_for, run_of
from ...messages import AssistantMessage, Media, ToolCall
from ...operations import ENDED, Operation, OperationEvent, OperationState, WaitsFor, transition
from ...scope import Scope
from ...storage.base import Store
from ...token_engine.digests import RECALL, cut_middle, hint
from ...tools.base import Done, NotDone, Pending, Tool, ToolResult
from ...tools.registry import ToolRegistry
from ...tools.threads import run_in_thread
from ...waits import Wait
from ..agent import read_arguments
from ..hooks import Hooks
from ..journal.entries import outcome_json, outcome_of
from ..journal.patterns import UNKNOWN_TOOL
from ..outcome import Ask, Deny, Outcome
from ..plain import AT_ONCE, bounded_text, cut_bytes, is_within, text_at_once
from ..recorder import record_calls
from ..run import RunSession
from ..validation import content_problem, media_problem
from .approval import NeedsAnswer, answer_text, approved_arguments, arguments_text
from .context import OUTSIDE, CallContext

NOT_ENABLED = "TOOL_NOT_ENABLED"
UNKNOWN = (
    "OUTCOME_UNKNOWN: the process ended while this tool was running, and it cannot be determined whether it took "
    "effect. It was not run again. Do not call it again with the same arguments before this has been cleared up."
)
CUT_OFF = (
    "not run: the answer reached its token limit before the arguments of this call were complete. Call the tool again "
    "with shorter arguments, or in several calls."
)
_ERROR_LENGTH = 2_000
_SHOWN = "The user already sees this. Do not write it again.\n<shown_to_the_user>\n{content}\n</shown_to_the_user>"


class NotEnabledError(ToolError):
    """The tool is not enabled for this user."""


class Call:
    """A tool call while its turn runs. Only `apply` changes its state."""

    __slots__ = (
        "_effect",
        "_hooks",
        "_key",
        "_run",
        "_uncut",
        "abandoned",
        "answer",
        "below",
        "call",
        "cut_off",
        "declared",
        "exclusive",
        "executing",
        "expired",
        "in_background",
        "index",
        "native",
        "ordinal",
        "outcome",
        "probing",
        "remote",
        "repeated",
        "siblings",
        "state",
        "sure",
        "task",
        "tool",
        "transitions",
        "waits_for",
    )

    def __init__(self, run: RunSession, hooks: Hooks, index: int, call: ToolCall, ordinal: int | str) -> None:
        self.index = index
        self.call = call
        self.ordinal = ordinal
        """The 1-based count of calls to this tool in this run; a name for a call outside a turn."""
        self.state: OperationState = "planned"
        self.transitions = 0
        """The number of state changes in this process."""
        self.waits_for: WaitsFor | None = None
        self.outcome: Outcome | None = None
        self.answer: Wait | None = None
        """The answer from outside, once there is one."""
        self.native = True
        """Whether the call is part of the model's message."""
        self.siblings = 0
        """The number of calls whose results share the context; 0 while the model is still writing the turn."""
        self.cut_off = False
        """Whether the answer's limit cut off the arguments."""
        self.sure = True
        """Whether no other process can still begin the call: otherwise a probe that finds nothing proves nothing."""
        self.probing = False
        """Whether the tool's probe is running, for a call that a crash interrupted."""
        self.executing: Tool | None = None
        """The tool while it executes."""
        self.task: asyncio.Task[None] | None = None
        self.expired = False
        """Whether the tool exceeded its timeout."""
        self.below: Sequence[Wait] | None = None
        """The open waits with which the call's sub-agent was suspended; None if it was not, or cannot continue here."""
        self.repeated = False
        """Whether this process runs the call again because its sub-agent got an answer."""
        self.abandoned = False
        """Whether the tool ignored its cancellation and is still running."""
        self._run = run
        self._hooks = hooks
        self.tool = tool = run.registry.by_name.get(call.name)
        """The tool of this name when the turn was planned; None if the registry had none."""
        self.exclusive = tool is not None and tool.exclusive
        """Whether the call runs alone."""
        self._effect = "" if tool is None else "idempotent" if tool.target else tool.effect
        self.remote = tool is not None and (tool.remote or tool.target != "")
        """Whether the result may arrive from outside."""
        self.declared = self._effect == "once" or self.remote
        """Whether the store must know of the call before it runs: for `once` effects and remote results."""
        self.in_background = tool is not None and tool.background and index != OUTSIDE
        """Whether the turn gets a handle, and does not wait for the result."""
        self._key = ""
        self._uncut: tuple[Tool, Outcome] | None = None

    @property
    def key(self) -> str:
        """The engine's id of the call."""
        if not self._key:
            self._key = call_key(self._run.id, self._run.state.step, self.index)
        return self._key

    # -- state ---------------------------------------------------------------------------------------------------

    def apply(self, event: OperationEvent, waits_for: WaitsFor | None = None) -> bool:
        """Apply *event* and return whether it changed the state. The journal's next entry contains the change."""
        state = transition(self.state, event)
        if state == self.state:
            return False
        self.state, self.waits_for = state, waits_for
        self.transitions += 1
        return True

    def note(self) -> None:
        """Record the operation in the journal's next entry."""
        self._run.journal.operation(self.operation())
        if self.outcome is not None and self.outcome.ends_run:
            self._run.journal.end_by(self.key)

    async def record(self) -> None:
        """Record that the call began or ended before the others of its turn."""
        self.note()
        await record_calls(self._run)

    def operation(self) -> Operation:
        """Return the call's operation as it is now."""
        outcome = self.outcome
        return Operation(
            key=self.key,
            scope=self._run.scope,
            run_id=self._run.id,
            kind="tool_call",
            state=self.state,
            step=self._run.state.step,
            name=self.call.name,
            index=self.index,
            call_id=self.call.id if self.native else "",
            effect=self._effect,
            remote=self.remote,
            waits_for=self.waits_for,
            outcome=None if outcome is None else outcome_json(outcome),
        )

    def restore(self, operation: Operation, wait: Wait | None, *, sure: bool) -> None:
        """Continue from the stored *operation*; *wait* is the call's answered wait."""
        self.state, self.waits_for, self.sure = operation.state, operation.waits_for, sure
        if operation.outcome is not None:
            self.outcome = outcome_of(self.call, operation.outcome)
        if operation.state != "waiting" or operation.waits_for == "sub_agent":
            self.answer = wait  # an approved call needs no second approval

    def end(self, outcome: Outcome) -> None:
        """Set the outcome and the state that follows from it."""
        self.outcome = outcome
        if self.state not in ENDED:
            self.apply("lose" if outcome.unknown else "fail" if outcome.is_error else "complete")

    def note_stopped(self) -> None:
        """Add the call to the tree's receipt, if it was running."""
        if (tool := self.executing) is None and not self.abandoned:
            return
        tool = tool or self.tool
        assert tool is not None
        work = StoppedWork(
            agent_path=self._run.path, what="tool", name=self.call.name, call_id=self.call.id, effect=tool.effect
        )
        if not tool.interruptible or (self.task is not None and not self.task.done()):
            self._run.tree.note_stopped("not_stopped", work)
        else:
            self._run.tree.note_stopped("stopped" if tool.effect == "read" else "unknown", work)

    # -- execution -----------------------------------------------------------------------------------------------

    async def perform(self, context: CallContext, *, again: bool) -> Outcome:  # noqa: C901, PLR0912, PLR0915 - checks in order
        """Return the outcome: from an answer, from a probe after a crash, or from the tool.

        Raises `NeedsAnswer`, `SubAgentWaits`, and what hooks and tools raise.
        """
        run, call = self._run, self.call
        self.probing = False  # a probe may have ended with a wait
        tool = run.registry.by_name.get(call.name)  # a hook may have removed it since the turn was planned
        if tool is None:
            names = ", ".join([spec.name for spec in run.registry.specs()]) or "none"
            name = "of this name" if self.tool is None else repr(call.name)
            raise ToolError(f"there is no tool {name}; the tools are: {names}")
        if self.cut_off:
            raise ToolError(CUT_OFF)
        if self.answer is not None and (answered := answer_text(self.answer)) is not None:
            content, is_error = answered
            value: Any = content
            if self.answer.target:
                from .called_run import count_called_run, handed_back  # noqa: PLC0415 - most runs have no such call

                await count_called_run(run, self.key, tool)
                value, is_error = handed_back(tool, self.answer, content, is_error=is_error)
            if value == UNKNOWN and is_error:
                return self._unknown_after("its process ended")
            return failed(call, value) if is_error else await self._structured(tool, value)
        if self.state == "unknown":
            return self._unknown()
        interrupted = self.state == "running" and again
        if interrupted:
            if self._effect == "once" and (known := await self._probe(tool, context)) is not None:
                return known
            self.apply("recover")
        arguments = await self._arguments(tool, context)
        if self.apply("start") and self.declared and run.journal.on and not interrupted:
            await self.record()
        if run.journal.on:
            await run.tree.confirm()
        if tool.target:
            from .called_run import handed_over  # noqa: PLC0415 - as above

            raise handed_over(run, self.ordinal, tool, arguments, call.arguments)
        if self.in_background:
            started = self._outcome(tool, run.work().start_in_background(self, arguments, again=again))
            started.handle = ""  # the card is the result, which has the same key
            return started
        if run.unread is not None and call.name == RECALL:
            await run.unread.read()  # rather than while the event loop waits
        self.executing = tool
        value = tool.execute(arguments, context)
        if hasattr(value, "__await__"):
            value = await value
        if not isinstance(value, str) and hasattr(value, "__aiter__"):
            value = await _last(value, tool, context)
        if isinstance(value, str):
            outcome = self._outcome(tool, cut_bytes(value, tool.max_bytes))
        elif isinstance(value, Pending):
            if not tool.remote:
                raise ToolError(f"tool {tool.name!r} returned Pending: declare it with @tool(remote=True)")
            if not value.target:
                raise NeedsAnswer("result", value.seconds, (), value.note, call.arguments)
            from .called_run import waiting_call  # noqa: PLC0415 - as above

            raise await waiting_call(run, self.ordinal, value, call.arguments)
        else:
            outcome = await self._structured(tool, value)
        outcome.stored = outcome.stored and not context.unkept
        return outcome

    async def _arguments(self, tool: Tool, context: CallContext) -> dict[str, Any]:
        """Return the validated arguments of a call that may run. Raises `NeedsAnswer` if it needs an approval.

        A call for another process has them as JSON values: that process converts them. It may have the tool without
        the presets of the caller's, so they are part of the call.
        """
        run, call, hooks = self._run, self.call, self._hooks
        if type(tool).should_use is not Tool.should_use and not await tool.should_use(context):
            raise NotEnabledError(NOT_ENABLED)
        if hooks.preprocess_tool_arguments.own:
            arguments = await hooks.preprocess_tool_arguments(run.context, call)
        else:
            arguments = read_arguments(call)
        if run.redactor is not None:
            arguments = run.redactor.value(arguments)
        asks, shown = hooks.authorize_tool_call.own, ""
        if self.answer is not None and self.answer.kind == "approval":
            asks, arguments = False, approved_arguments(self.answer, arguments)
        if asks:
            shown = arguments_text(arguments)
        given, checked = arguments, tool.validate(arguments)
        arguments = checked if isinstance(checked, dict) else await checked
        if not asks:
            return tool.with_presets(given) if tool.target else arguments
        decision = await hooks.authorize_tool_call(run.context, call, arguments)
        if isinstance(decision, Deny):
            raise ToolError(f"not allowed: {decision.reason}")
        if isinstance(decision, Ask) and self.waits_for != "sub_agent":  # that call has begun: its sub-agent continues
            raise NeedsAnswer("approval", decision.seconds, decision.who, decision.note, shown)
        return tool.with_presets(given) if tool.target else arguments

    async def _probe(self, tool: Tool, context: CallContext) -> Outcome | None:
        """Return the outcome of a `once` call that a crash interrupted; None if it certainly had no effect."""
        self.probing = True
        found = await tool.probe(context.key, context)
        self.probing = False
        match found:
            case Done(result):
                return await self._structured(tool, result)
            case NotDone() if self.sure:
                return None
        return self._unknown_after("it was interrupted")

    def failure(self, why: str | BaseException) -> Outcome:
        """Return the outcome of a call that an error or a time limit has ended; a failing probe knows nothing."""
        if self.probing:
            # The text of an error may not pass the data policy.
            problem = why if isinstance(why, str) else type(why).__name__
            return self._unknown_after(f"it was interrupted (its probe failed: {problem})")
        return failed(self.call, why) if isinstance(why, str) else failed_by(self.call, why)

    def _unknown_after(self, what: str) -> Outcome:
        self._run.notify("outcome_unknown", f"whether {self.call.name} took effect is unknown: {what}")
        return self._unknown()

    def _unknown(self) -> Outcome:
        outcome = failed(self.call, UNKNOWN)
        outcome.unknown = True
        return outcome

    # -- the outcome ---------------------------------------------------------------------------------------------

    async def _structured(self, tool: Tool, value: Any) -> Outcome:
        """Return the outcome with a result of any type. A large one is encoded in a thread, so that it stops no run."""
        if isinstance(value, Media):
            value = ToolResult("", media=(value,))
        if not isinstance(value, ToolResult):
            return self._outcome(tool, await _text(value, tool.max_bytes))
        fits = value.data is None or await _fits(value.data, tool.max_bytes)
        return self._outcome(tool, await _text(value.content, tool.max_bytes), value, fits=fits)

    def _outcome(self, tool: Tool, content: str, value: ToolResult | None = None, *, fits: bool = True) -> Outcome:
        """Return the outcome with *content*, which is bounded, and the rest of the result *value*."""
        outcome = Outcome(self.call, content)
        if value is not None:
            if value.summary is not None:
                outcome.summary = bounded_text(value.summary, tool.max_bytes)
            if value.data is not None and fits:
                outcome.data = value.data
            elif value.data is not None:
                text = (
                    f"the structured result of {self.call.name} was dropped: it has more than {tool.max_bytes:,} bytes"
                )
                self._run.notify("tool_data_dropped", text)
        outcome.retain = tool.retain
        if value is not None:
            outcome.stored, outcome.ends_run = value.stored, value.ends_run
            if value.media:
                self._attach(outcome, value.media)
        if self.siblings:
            self._cut(tool, outcome)
        else:
            self._uncut = tool, outcome
        return outcome

    def _attach(self, outcome: Outcome, media: tuple[Media, ...]) -> None:
        """Add a result's media. The model reads why media that cannot be sent are missing."""
        problem = media_problem(media, self._run.limits.media_bytes) or content_problem(media)
        if problem:
            outcome.content += f"\n[the media of this result were left out: {problem}]"
        else:
            outcome.media = media

    def cut_early(self) -> None:
        """Shorten the result of a call that ended before the number of calls was known."""
        if self._uncut is not None:
            self._cut(*self._uncut)
            self._uncut = None

    def _cut(self, tool: Tool, outcome: Outcome) -> None:
        """Shorten the content of *outcome* to its share of the context."""
        run, whole = self._run, outcome.content
        most = run.window.allowance(self.siblings, tool.max_tokens)
        outcome.handle = handle_for(self.key) if run.registry.takes_cards else ""
        if len(whole) > most or not whole.isascii():
            outcome.handle = outcome.handle or handle_for(whole)
            note = hint(outcome.handle, recallable=run.recallable)
            outcome.content = cut_middle(run.resources.counter, whole, most, note)
        if tool.shown:
            outcome.content = _SHOWN.format(content=outcome.content)
        if outcome.content != whole:
            outcome.whole = whole


def wait_for(call: Call, waits: Sequence[Wait]) -> None:
    """Let *call* wait for its sub-agent, which was suspended with these open *waits*."""
    call.below = waits if waits or not call.repeated else None  # without one, it continues once: never in a circle
    call.apply("start")
    call.apply("wait", "sub_agent")


async def may_continue(call: Call, store: Store, scope: Scope) -> bool:
    """Return whether the suspended sub-agent of *call* may continue; then the call may run again.

    As for a suspended tree, a run below the call must have all answers that it waits for. Without an open wait, the
    answer came while the sub-agent was being suspended.
    """
    if call.below is None or call.state != "waiting":
        return False
    answered: dict[str, bool] = {}
    for wait in call.below:
        found, run_id = await store.wait(scope, wait.key), run_of(wait.key)
        answered[run_id] = answered.get(run_id, True) and found is not None and found.resolution is not None
    if answered and not any(answered.values()):
        return False
    call.task, call.below, call.repeated = None, None, True
    return True


def failed(call: ToolCall, problem: str) -> Outcome:
    """Return the outcome of a failed call, with a problem that is too long shortened."""
    if len(problem) > _ERROR_LENGTH:
        problem = problem[:_ERROR_LENGTH] + " [...]"
    return Outcome(call, problem, is_error=True)


def failed_by(call: ToolCall, error: BaseException) -> Outcome:
    """Return the outcome of a call that *error* has ended: any error of a tool is a result, and never ends the run."""
    text = error_text(error)
    if isinstance(error, ToolError):
        text = text.removeprefix(f"{type(error).__name__}: ")  # the tool chose the model's text
    outcome = failed(call, text)
    outcome.not_enabled = isinstance(error, NotEnabledError)
    return outcome


def known_call(call: ToolCall, registry: ToolRegistry) -> ToolCall:
    """Return *call* with the mark for an invented name: no event, journal, log or terminal receives such a name."""
    if call.name in registry.by_name:
        return call
    return replace(call, name=UNKNOWN_TOOL, raw=None)  # the raw form contains the name


def known_calls(message: AssistantMessage, registry: ToolRegistry) -> AssistantMessage:
    """Return *message* with `known_call` of each of its calls."""
    parts = tuple([known_call(part, registry) if part.kind == "tool_call" else part for part in message.parts])
    return message if parts == message.parts else replace(message, parts=parts)


def cut_off_call(message: AssistantMessage) -> ToolCall | None:
    """Return the last call of *message* if the answer's limit cut off its arguments."""
    if message.stop_reason != "length" or not message.tool_calls or message.parts[-1] is not message.tool_calls[-1]:
        return None
    call = message.tool_calls[-1]
    try:
        complete = isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        complete = False
    return None if complete else call


async def _last(items: Any, tool: Tool, context: CallContext) -> Any:
    """Stream each item of an async iterator and return the last one."""
    last: Any = None
    try:
        async for item in items:
            last = item
            if not isinstance(item, ToolResult):
                context.stream(await _text(item, tool.max_bytes))
            elif item.stored:
                context.stream(await _text(item.content, tool.max_bytes))
    finally:
        if hasattr(items, "aclose"):
            await items.aclose()
    return last


async def _text(value: Any, most: int) -> str:
    """Return `bounded_text` of *value*. A large structure is encoded in a thread, so that it stops no other run."""
    text = text_at_once(value, most)
    if text is not None:
        return text
    return str(await run_in_thread(bounded_text, value[:most] if isinstance(value, bytes) else value, most))


async def _fits(data: Any, most: int) -> bool:
    """Return whether *data* have at most *most* bytes. Large data are measured in a thread."""
    at_once = min(most, AT_ONCE)
    return is_within(data, at_once) or (at_once < most and await run_in_thread(is_within, data, most))
