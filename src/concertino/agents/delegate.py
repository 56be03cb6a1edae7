"""`delegate`: any agent becomes a tool of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ConfigurationError, RunError, ToolError
from ..orchestrator.agent import AgentConfig
from ..tools.base import Tool, ToolContext, ToolResult
from ..tools.registry import ToolRegistry


class AgentTool(Tool):
    """A tool that runs an agent; see `delegate`."""

    timeout = None  # the agent's own limits end it
    selection_rule = ""
    effect = "idempotent"  # the same call finds the same sub-run again

    def __init__(
        self,
        agent: AgentConfig[Any],
        name: str,
        description: str,
        tools: ToolRegistry | None,
        tool_call_limit: int | None,
    ) -> None:
        self.name = name
        self.description = description
        self.parameters = {
            "type": "object",
            "properties": {"query": {"type": "string", "minLength": 1, "description": "The task, complete in itself"}},
            "required": ["query"],
            "additionalProperties": False,
        }
        self._agent = agent
        self._tools = tools
        self._tool_call_limit = tool_call_limit

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run the agent on the query; its answer is the result."""
        try:
            result = await context.spawn(
                self._agent,
                arguments["query"],
                tools=self._tools,
                tool_call_limit=self._tool_call_limit,
            )
        except RunError as error:
            raise ToolError(f"{self._agent.name} failed: {error}") from error
        return ToolResult(result.text or "(no answer)", summary=None)


def delegate(
    agent: AgentConfig[Any],
    *,
    name: str | None = None,
    description: str,
    tools: Sequence[Tool] | None = None,
    selection_rule: str = "",
    tool_call_limit: int | None = None,
) -> Tool:
    """A tool that hands a task to *agent*, which sees nothing else of the conversation, and returns its answer.

    *tools* are the sub-agent's, instead of its own. Its events go into the parent's stream, its usage and tool
    calls roll up. Several calls in one turn run side by side. Raises `ConfigurationError` if *agent* is no agent.
    """
    if not isinstance(agent, AgentConfig):
        raise ConfigurationError(f"{agent!r:.80} is no agent; pass an object of a subclass of AgentConfig")
    registry = None if tools is None else ToolRegistry(tools)
    made = AgentTool(agent, name or agent.name, description, registry, tool_call_limit)
    made.selection_rule = selection_rule
    return made
