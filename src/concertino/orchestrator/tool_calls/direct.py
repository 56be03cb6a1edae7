"""`Work.call`: a call of a tool outside a turn, by a hook or by another tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import ConfigurationError, LimitError, ToolError
from ...ids import digest, handle_for
from ...messages import ToolCall
from ...operations import ENDED
from ...tools.base import ToolContext, ToolResult
from ..hooks import Hooks
from ..journal.entries import outcome_of
from ..outcome import Outcome, Suspend
from ..plain import as_text
from ..recorder import record_outside
from ..run import RunSession
from .approval import NeedsAnswer
from .context import OUTSIDE, CallContext, Spawn, SubAgentWaits
from .dispatch import ToolCalls
from .tool_call import Call, failed

_CANNOT_WAIT = "refused: it needs {what}, and only a call that the model makes in a turn can wait for one"


class DirectCall(Call):
    """A call outside a turn. The store knows of it from its start until the next request is recorded."""

    __slots__ = ()

    def __init__(self, run: RunSession, hooks: Hooks, key: str, call: ToolCall) -> None:
        super().__init__(run, hooks, OUTSIDE, call, f"call-{handle_for(key)}")
        self._key = key
        self.declared, self.native = True, False

    async def record(self) -> None:
        """Record the operation, apart from the conversation: a hook may run between two entries of a turn."""
        await record_outside(self._run, self.operation())


class DirectCalls(ToolCalls):
    """The calls of a "turn" without a model: one call, which cannot wait for an answer from outside."""

    __slots__ = ()

    def add(self, call: Call) -> None:
        """Add the call."""
        self._calls.append(call)

    async def _end(self, call: Call, outcome: Outcome, context: CallContext) -> None:
        call.end(outcome)
        if self._run.journal.on:
            await call.record()
        self._emit_end(call, context)

    async def _wait(self, call: Call, context: CallContext, needs: SubAgentWaits | NeedsAnswer) -> None:
        if isinstance(needs, SubAgentWaits):
            await super()._wait(call, context, needs)
            await call.record()
            return
        call.executing = None
        what = "an approval" if needs.kind == "approval" else "a result from outside"
        await self._end(call, failed(call.call, _CANNOT_WAIT.format(what=what)), context)

    async def _background_call_ends(self) -> bool:
        return False  # the caller may be one

    async def _suspend(self) -> Suspend:
        return Suspend(())  # what is recorded is up to the caller's own turn


def direct_key(run: RunSession, by: ToolContext | None, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return the part of the key that equal calls share, and the arguments as JSON text.

    It depends on the call that calls, or on the step and the phase of the hook, and on the tool and its arguments: the
    same in every process that repeats the hook or the tool, in whatever order parallel calls happen.
    """
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"call({tool!r:.80}): the arguments must be JSON values: {error}") from None
    caller = f"{run.id}:{run.state.step}.hook{run.phase + run.journal.late}" if by is None else by.key
    return f"{caller}.{digest(f'{tool}:{text}')[:12]}", text


async def call_directly(
    run: RunSession, hooks: Hooks, spawn: Spawn, by: ToolContext | None, key: str, tool: str, arguments: str
) -> ToolResult:
    """Call *tool* outside a turn; see `Work.call`. *by* is the tool call that calls, None for a hook.

    A call whose outcome an earlier process has recorded is not repeated. Raises `LimitError` if the tree may call no
    more tools.
    """
    call = DirectCall(run, hooks, key, ToolCall(key, tool, arguments))
    known = run.outside.get(key)
    run.outside[key] = known
    if known is None:  # otherwise the entry that recorded it has counted it
        meter = run.meter
        if meter.tool_calls >= meter.most_tool_calls:
            raise LimitError(meter.sentence("all_tool_calls"), "all_tool_calls")
        meter.tool_calls += 1
        run.count_calls({run.path: run.state.tool_calls.get(run.path, 0) + 1})
    elif known.state in ENDED and known.outcome is not None:
        return _result(outcome_of(call.call, known.outcome))
    if call.remote:
        raise ToolError(_CANNOT_WAIT.format(what="a result from outside"))
    calls = DirectCalls(run, hooks, spawn, again=known is not None)
    calls.add(call)
    if known is not None:
        assert run.tree.claim is not None
        call.restore(known, None, sure=run.tree.claim.sure)
    try:
        suspended = await calls.run()
    except BaseException:
        await calls.stop(run.tree.patience)
        calls.note_stopped()
        raise
    if suspended is None:
        return _result(calls.outcomes()[0])
    if by is not None:
        # The tool waits as well, and is repeated with the recorded outcomes of its other calls.
        raise SubAgentWaits(call.below or ())
    raise ToolError(_CANNOT_WAIT.format(what="an answer to its sub-agent"))


def _result(outcome: Outcome) -> ToolResult:
    """Return an outcome as a tool's result. Raises `ToolError` if the call failed."""
    if outcome.is_error:
        raise ToolError(outcome.content)
    return ToolResult(
        as_text(outcome.content),
        data=outcome.data,
        summary=outcome.summary,
        media=outcome.media,
        stored=outcome.stored,
    )
