"""The part that offers the tools of MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...messages import AssistantMessage, ToolCall, ToolMessage
from ...orchestrator.agent import Part
from ...orchestrator.outcome import Allow, Ask, Outcome
from ...orchestrator.run import RunContext
from ...scope import Scope
from ...storage.base import ApprovalRules
from ...tools.base import Tool, ToolContext
from ...waits import Wait
from ..mcp_task import elicitation_answer, follow_task, task_of
from ..person import ask_login, ask_person
from .approvals import is_allowed

if TYPE_CHECKING:
    from ...tools.mcp import Elicitation, ElicitationAnswer, McpToolbox


class McpTools(Part):
    """Offers the tools of a *toolbox*, and asks a person before tools run that may change or delete something.

    The servers' annotations decide which tools those are, unless `McpServer.effects` overrides them: a tool with the
    effect `read` needs no approval. *approve* is False for an agent without approvals, or with an `Approvals` part of
    its own. *rules*, a store, has the approval rules of users.

    The questions of a server (elicitation) are waits of the tool `ask_person`, with the arguments `message`, `schema`
    and `url`. Resolve them with the form's values as a JSON object; with `failed=True` the user declines. A wait for a
    login also has the argument `login`, the name of the server; `McpOAuth.finish` answers it.
    A call that a server runs as a task is a wait of the tool `mcp_task`.
    """

    def __init__(self, toolbox: McpToolbox, *, approve: bool = True, rules: ApprovalRules | None = None) -> None:
        toolbox.ask, toolbox.follow = _ask, follow_task
        self._toolbox = toolbox
        self._approve = approve
        self._rules = rules

    @property
    def tools(self) -> Sequence[Tool]:  # type: ignore[override]  # the servers may change them
        """The tools that the servers offer now."""
        return self._toolbox.tools

    def on_stopped(self, scope: Scope, waits: Sequence[Wait]) -> None:
        """Cancel the tasks that a stopped run waited for."""
        for wait in waits:
            if (found := task_of(wait)) is not None:
                self._toolbox.cancel(*found, scope)

    async def load_tools(self, run: RunContext[Any]) -> Sequence[Tool]:
        """Return the tools of the servers to which the run's user has logged in.

        A resumed run also has the tools of its open calls, which wait for the login if the user has to log in again.
        """
        tools = await self._toolbox.tools_of(run.chat.scope)
        known = {tool.name for tool in (*self.tools, *tools)}
        missing = {call.name for call in _open_calls(run)} - known
        return (*tools, *filter(None, map(self._toolbox.awaited, sorted(missing))))

    async def handle_special_tools(self, run: RunContext[Any], call: ToolCall, outcome: Outcome) -> None:
        """Add the tools of a server to which the user has logged in during this run."""
        called = run.registry.get(call.name)
        if _stands_in(called) or (not outcome.is_error and getattr(called, "logs_in", False)):
            for tool in await self._toolbox.tools_of(run.chat.scope):
                if _stands_in(run.registry.get(tool.name)):
                    run.registry.unregister(tool.name)
                if tool.name not in run.registry:
                    run.registry.register(tool)

    async def authorize_tool_call(self, run: RunContext[Any], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        """Ask a person about tools that may destroy something, unless a rule of the user allows the call."""
        tool = run.registry.get(call.name)
        if not self._approve or not getattr(tool, "destructive", False):
            return Allow()
        return Allow() if await is_allowed(self._rules, run, call.name) else Ask()


def _open_calls(run: RunContext[Any]) -> Sequence[ToolCall]:
    """Return the calls of the last turn of a resumed run."""
    last = next((each for each in reversed(run.messages) if not isinstance(each, ToolMessage)), None)
    return last.tool_calls if isinstance(last, AssistantMessage) else ()


def _stands_in(tool: Tool | None) -> bool:
    return getattr(tool, "stands_in", False)


async def _ask(context: ToolContext, question: Elicitation) -> ElicitationAnswer:
    if question.login:
        from ...tools.mcp import ElicitationAnswer  # noqa: PLC0415 - needs the extra

        accepted = await ask_login(context, question.message, url=question.url, login=question.login)
        return ElicitationAnswer(action="accept" if accepted else "decline")
    return elicitation_answer(await ask_person(context, question.message, schema=question.schema, url=question.url))
