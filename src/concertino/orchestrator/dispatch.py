"""Running the tools of one turn: side by side, each within its time, and each with an outcome, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..errors import HookError, ToolError
from ..events import ToolDone, ToolFailed, ToolStarted
from ..messages import ToolCall
from ..token_engine.cut import cut_middle
from ..tools.port import Tool, ToolResult
from .call import CallContext, SpawnFor, as_text
from .config import read_arguments
from .hooks import Hooks
from .mailbox import PATIENCE
from .outcome import Deny, Outcome
from .run import Run

NOT_ENABLED = "TOOL_NOT_ENABLED"
INTERRUPTED = "interrupted: the run was stopped before this tool had ended"
_ERROR_LENGTH = 2_000
_SHOWN = "The user sees this already. Do not write it again.\n<shown_to_the_user>\n{content}\n</shown_to_the_user>"


class Dispatch:
    """The calls of one turn: `start`, then read the run's mailbox to its end, and `outcomes` has one for each."""

    def __init__(self, run: Run[Any], hooks: Hooks, calls: Sequence[ToolCall], spawn: SpawnFor) -> None:
        self._run = run
        self._hooks = hooks
        self._calls = calls
        self._spawn = spawn
        self._outcomes: dict[int, Outcome] = {}
        self._expired: set[int] = set()
        self._left_behind: set[int] = set()
        self._gate: asyncio.Semaphore | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin all calls; more than may run side by side wait for their turn."""
        width = self._run.limits.parallel_tools if self._hooks.config.use_parallel_tools else 1
        one = self._one
        if len(self._calls) > width:
            self._gate = asyncio.Semaphore(width)
            one = self._gated
        self._tasks = self._run.mailbox.start([one(n, self._count(call)) for n, call in enumerate(self._calls)])

    def outcomes(self) -> list[Outcome]:
        """One outcome for each call; a call that was stopped has one that says so."""
        return [
            self._outcomes.get(place) or Outcome(call, INTERRUPTED, is_error=True)
            for place, call in enumerate(self._calls)
        ]

    def _count(self, call: ToolCall) -> int:
        state = self._run.state
        state.calls_of[call.name] = state.calls_of.get(call.name, 0) + 1
        state.tool_calls[self._run.path] = state.tool_calls.get(self._run.path, 0) + 1
        return state.calls_of[call.name]

    async def _gated(self, place: int, ordinal: int) -> None:
        assert self._gate is not None
        await self._gate.acquire()
        try:
            await self._one(place, ordinal)
        finally:
            if place not in self._left_behind:
                self._gate.release()

    async def _one(self, place: int, ordinal: int) -> None:
        """One call, from its start to its outcome."""
        call = self._calls[place]
        context = CallContext(self._run, call, self._spawn, ordinal)
        context.emit(ToolStarted, call.arguments)
        try:
            tool, value = await self._execute(place, context)
            outcome = self._outcome(call, tool, value)
        except asyncio.CancelledError:
            why = self._why_cancelled(place)
            if why is None:
                raise
            outcome = self._failed(call, why)
        except HookError:
            raise  # hooks decide, and one that cannot ends the run
        except ToolError as error:
            outcome = self._failed(call, str(error))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a failing tool never fails the run, nor ends the program
            outcome = self._failed(call, _described(error))
        if place not in self._left_behind:
            self._end(place, outcome, context)

    def _end(self, place: int, outcome: Outcome, context: CallContext) -> None:
        outcome.progress = context.end_progress()
        self._outcomes[place] = outcome
        if outcome.is_error:
            context.emit(ToolFailed, outcome.content)
            return
        context.emit(ToolDone, outcome.content if outcome.whole is None else outcome.whole, outcome.data)

    async def _execute(self, place: int, context: CallContext) -> tuple[Tool, Any]:
        run, call = self._run, self._calls[place]
        tool = run.registry.get(call.name)
        if tool is None:
            names = ", ".join(run.registry.names()) or "none"
            raise ToolError(f"there is no tool {call.name!r}; the tools are: {names}")
        if tool.timeout is not None:
            run.deadlines.add(context, tool.timeout, partial(self._expire, place, context))
        try:
            if type(tool).should_use is not Tool.should_use and not await tool.should_use(context):
                raise ToolError(NOT_ENABLED)
            if self._hooks.has_own("preprocess_tool_arguments"):
                arguments = await self._hooks.ask("preprocess_tool_arguments", run, call)
            else:
                arguments = read_arguments(call)
            arguments = tool.validate(arguments)
            if self._hooks.has_own("authorize_tool_call"):
                decision = await self._hooks.ask("authorize_tool_call", run, call, arguments)
                if isinstance(decision, Deny):
                    raise ToolError(f"not allowed: {decision.reason}")
            value = tool.execute(arguments, context)
            if hasattr(value, "__await__"):
                value = await value
            return tool, await _last(value, context) if hasattr(value, "__aiter__") else value
        finally:
            run.deadlines.remove(context)

    def _expire(self, place: int, context: CallContext) -> None:
        self._expired.add(place)
        task = self._tasks[place]
        task.cancel()
        self._run.deadlines.add(task, PATIENCE, partial(self._leave, place, context))

    def _leave(self, place: int, context: CallContext) -> None:
        """A tool that takes no notice of its cancellation is left behind; the run goes on without it."""
        if self._tasks[place].done():
            return
        self._left_behind.add(place)
        self._end(place, self._failed(self._calls[place], self._overdue(place)), context)
        self._run.mailbox.leave(self._tasks[place])
        if self._gate is not None:
            self._gate.release()  # those behind it must not wait for it either

    def _overdue(self, place: int) -> str:
        tool = self._run.registry.get(self._calls[place].name)
        return f"no result within the time limit of {tool.timeout if tool else 0:g} s"

    def _why_cancelled(self, place: int) -> str | None:
        """What the model is told of a cancelled call; None if the run itself is being cancelled."""
        task = asyncio.current_task()
        assert task is not None
        if place in self._expired and task.uncancel() == 0:
            return self._overdue(place)
        return None if task.cancelling() else "the tool was cancelled from within"

    def _outcome(self, call: ToolCall, tool: Tool, value: Any) -> Outcome:
        result = value if isinstance(value, ToolResult) else ToolResult(value)
        whole = as_text(result.content)
        content = cut_middle(self._run.chat.counter, whole, self._run.window.allowance(len(self._calls)))
        if tool.shown:
            content = _SHOWN.format(content=content)
        return Outcome(
            call,
            content,
            data=result.data,
            whole=whole if content != whole else None,
            summary=(result.summary or "") if tool.retain == "once" else None,
        )

    def _failed(self, call: ToolCall, problem: str) -> Outcome:
        if len(problem) > _ERROR_LENGTH:
            problem = problem[:_ERROR_LENGTH] + " [...]"
        return Outcome(call, problem, is_error=True)


def _described(error: BaseException) -> str:
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
