"""Sub-agents: runs below a tool call or a hook of another run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..errors import RunError, ToolError
from ..events import RunResult
from ..messages import Message
from ..tools.registry import ToolRegistry
from .agent import AgentConfig
from .lifecycle.resume import child_result
from .model_call.attempt import ORPHANED
from .tool_calls.context import Parent, SubAgentTask


class RunBelow(Protocol):
    """The engine of a sub-agent's run."""

    @property
    def result(self) -> RunResult | None:
        """The result of the run however it ended."""

    async def run_below(self) -> RunResult:
        """Run in the task of the call."""


async def spawn(
    engine: Callable[..., RunBelow],
    parent: Parent,
    agent: AgentConfig[Any],
    task: SubAgentTask,
    registry: ToolRegistry | None,
    tool_call_limit: int | None,
) -> RunResult:
    """Run a sub-agent for a call. Its events, usage and tool calls are part of the parent's, however it ends.

    If the call is repeated after a crash or a wait, its sub-agent is found and resumed, or has ended.
    """
    run = parent.run
    if run.ended:
        raise ToolError(ORPHANED)
    result, started = await child_result(run, parent, agent.output_type) if parent.again else (None, False)
    box: Sequence[Message] = ()
    if parent.cards and not started:
        from .cards import box_of  # noqa: PLC0415 - few runs have cards

        box = await box_of(run, parent.cards)
    if not isinstance(task, str):
        task = "" if started else await task()
    if not parent.again and (why := run.meter.refuse_spawn(run.path)) is not None:
        raise ToolError(why)
    if result is None:
        child = engine(
            run.chat.for_child(task, run.model, box),
            agent,
            registry,
            resources=run.resources,
            tool_call_limit=tool_call_limit,
            parent=parent,
            resume=started,
        )
        try:
            result = await child.run_below()
        finally:
            if child.result is not None:
                run.count_calls(child.result.tool_calls)
    else:
        run.count_calls(result.tool_calls)
        if result.run_id not in run.tree.policies:  # otherwise this process has counted it
            run.meter.restore_run(result.tool_calls)
    if run.ended:
        raise ToolError(ORPHANED)
    if result.status in ("failed", "cancelled"):
        raise RunError(result.error or "the sub-agent failed", result)
    return result
