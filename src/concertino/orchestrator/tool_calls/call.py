"""One tool call of a turn: how it stands, and what it comes to."""

from __future__ import annotations

import asyncio
from typing import Any

from ...errors import ToolError
from ...messages import ToolCall
from ...token_engine.recall import RECALL, cut_middle, handle_for, hint
from ...tools.base import Done, NotDone, Pending, Tool, ToolResult
from ...waits import Wait
from ..agent import read_arguments
from ..hooks import Hooks
from ..outcome import Ask, Deny, Outcome
from ..plain import as_text
from ..run import Run
from .approval import Waiting, approved, asked_arguments, outcome_of
from .context import CallContext

NOT_ENABLED = "TOOL_NOT_ENABLED"
UNKNOWN = (
    "OUTCOME_UNKNOWN: the process ended while this tool was at work, and nobody can tell whether it took effect. It "
    "was not run again. Do not call it again with the same arguments before that is cleared up."
)
CUT_OFF = (
    "not run: the answer reached its limit of tokens before the arguments of this call were complete. Call it again "
    "with shorter arguments, or in several calls."
)
_ERROR_LENGTH = 2_000
_SHOWN = "The user sees this already. Do not write it again.\n<shown_to_the_user>\n{content}\n</shown_to_the_user>"


class Job:
    """A call on its way to its outcome."""

    __slots__ = (
        "_hooks",
        "_run",
        "_uncut",
        "answer",
        "begun",
        "call",
        "expired",
        "has_child",
        "left",
        "ordinal",
        "outcome",
        "place",
        "recorded",
        "task",
        "unsure",
        "waits",
        "working",
    )

    def __init__(self, run: Run[Any], hooks: Hooks, place: int, call: ToolCall, ordinal: int) -> None:
        self._run = run
        self._hooks = hooks
        self.place = place
        self.call = call
        self.ordinal = ordinal
        """The how-manieth call of its tool in this run, from 1."""
        self.task: asyncio.Task[None] | None = None
        self.outcome: Outcome | None = None
        self.recorded = False
        """Whether the outcome is in the journal."""
        self.begun = False
        """Whether the journal says that it may have begun; for `once` calls."""
        self.waits = False
        """Whether somebody outside must answer it."""
        self.has_child = False
        """Whether its sub-agent is suspended."""
        self.answer: Wait | None = None
        """What was answered to it."""
        self.working: Tool | None = None
        """The tool that is at work on it."""
        self.unsure = False
        """Whether another process may still begin it: that its probe finds nothing proves nothing then."""
        self.expired = False
        self.left = False
        self._uncut: tuple[Tool, Outcome] | None = None

    @property
    def tool(self) -> Tool | None:
        """The tool that is called."""
        return self._run.registry.get(self.call.name)

    async def perform(self, tool: Tool, context: CallContext, *, again: bool) -> Outcome:
        """What the call comes to: what was answered for it, what it had come to before a crash, or its tool's work."""
        run, call = self._run, self.call
        if run.cut_off is call:
            raise ToolError(CUT_OFF)
        if self.answer is not None and (text := outcome_of(self.answer)) is not None:
            content, is_error = text
            return failed(call, content) if is_error else self._outcome(tool, content)
        if self.begun and again and (known := await self._probe(tool, context)) is not None:
            return known
        arguments = await self._arguments(tool, context)
        if run.journal.on and tool.effect == "once" and not self.begun:
            self.begun = True
            await run.journal.append("calls_changed", run.state.step, {"begun": [self.place]})
        if run.journal.on:
            await run.tree.confirm()
        self.working = tool
        value = tool.execute(arguments, context)
        if hasattr(value, "__await__"):
            value = await value
        if hasattr(value, "__aiter__"):
            value = await _last(value, context)
        if isinstance(value, Pending):
            raise Waiting("result", value.seconds, (), value.note, call.arguments)
        return self._outcome(tool, value)

    async def _arguments(self, tool: Tool, context: CallContext) -> dict[str, Any]:
        """The checked arguments of a call that may run. Raises `Waiting` if somebody must be asked first."""
        run, call, hooks = self._run, self.call, self._hooks
        if type(tool).should_use is not Tool.should_use and not await tool.should_use(context):
            raise ToolError(NOT_ENABLED)
        if hooks.preprocesses:
            arguments = await hooks.ask("preprocess_tool_arguments", run, call)
        else:
            arguments = read_arguments(call)
        if self.answer is not None and self.answer.kind == "approval":
            return tool.validate(approved(self.answer, arguments))
        if not hooks.authorizes:
            return tool.validate(arguments)
        asked, arguments = asked_arguments(arguments), tool.validate(arguments)
        decision = await hooks.ask("authorize_tool_call", run, call, arguments)
        if isinstance(decision, Deny):
            raise ToolError(f"not allowed: {decision.reason}")
        if isinstance(decision, Ask):
            raise Waiting("approval", decision.seconds, decision.who, decision.note, asked)
        return arguments

    async def _probe(self, tool: Tool, context: CallContext) -> Outcome | None:
        """What became of a `once` call that a crash interrupted; None: it surely took no effect, and may be run."""
        why = ""
        try:
            found = await tool.probe(context.key, context)
        except Exception as error:  # noqa: BLE001 - a probe that fails cannot tell
            found, why = None, f" (its probe failed: {type(error).__name__})"  # a notice is shown as it is
        match found:
            case Done(result):
                return self._outcome(tool, result)
            case NotDone() if not self.unsure:
                return None
        text = f"whether {self.call.name} took effect is unknown: it was interrupted{why}"
        self._run.notify("outcome_unknown", text)
        outcome = failed(self.call, UNKNOWN)
        outcome.unknown = True
        return outcome

    def _outcome(self, tool: Tool, value: Any) -> Outcome:
        result = value if isinstance(value, ToolResult) else ToolResult(value)
        content = as_text(result.content)
        outcome = Outcome(self.call, content, data=result.data, summary=result.summary, retain=tool.retain)
        if self._run.calls_at_once:
            self._cut(tool, outcome)
        else:
            self._uncut = tool, outcome
        return outcome

    def cut_early(self) -> None:
        """Cut what the call came to before it was known how many results share the room, now that it is."""
        if self._uncut is not None:
            self._cut(*self._uncut)
            self._uncut = None

    def _cut(self, tool: Tool, outcome: Outcome) -> None:
        """Leave as much of the content of *outcome* as its share of the room allows."""
        run, whole = self._run, outcome.content
        most = run.window.allowance(run.calls_at_once, tool.max_tokens)
        if len(whole) > most or not whole.isascii():
            outcome.handle = handle_for(run.call_key(self.place))
            told = hint(outcome.handle, recallable=RECALL in run.registry)
            outcome.content = cut_middle(run.chat.counter, whole, most, told)
        if tool.shown:
            outcome.content = _SHOWN.format(content=outcome.content)
        if outcome.content != whole:
            outcome.whole = whole


def failed(call: ToolCall, problem: str) -> Outcome:
    """The outcome of a call that failed; what is too long of the problem is left out."""
    if len(problem) > _ERROR_LENGTH:
        problem = problem[:_ERROR_LENGTH] + " [...]"
    return Outcome(call, problem, is_error=True)


def described(error: BaseException) -> str:
    """What the model reads of an error."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an error that cannot even be printed is a tool's failure like any other
        return type(error).__name__


async def _last(items: Any, context: CallContext) -> Any:
    """The last item of an async iterator; each of them is streamed as it comes."""
    last: Any = None
    try:
        async for item in items:
            last = item
            context.stream(as_text(item.content if isinstance(item, ToolResult) else item))
    finally:
        if hasattr(items, "aclose"):
            await items.aclose()
    return last
