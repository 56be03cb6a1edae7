"""`delegate`, which makes any agent a tool of another agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from ..errors import ConfigurationError, RunError, ToolError
from ..messages import AssistantMessage
from ..number_checks import check_whole
from ..orchestrator.agent import AgentConfig, check_parts
from ..orchestrator.outcome import agent_answer
from ..targets import check_target
from ..tools.base import Pending, Tool, ToolContext, ToolResult
from ..tools.registry import ToolRegistry

_QUERY = "The complete task; the agent sees nothing else"
_CARDS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": 32,
    "description": (
        "Ids of earlier results that the agent needs: it reads them whole, so do not repeat their text in the query. "
        "The id is in the last line of a result: [card ID]"
    ),
}


class AgentTool(Tool):
    """A tool that runs an agent; see `delegate`."""

    timeout = None  # the agent has limits of its own
    selection_rule = ""
    effect = "idempotent"  # the child's run id derives from the call, so a repeated call finds the same run

    def __init__(
        self,
        agent: AgentConfig[Any],
        name: str,
        description: str,
        tools: ToolRegistry | None,
        tool_call_limit: int | None,
        *,
        background: bool,
        cards: bool,
    ) -> None:
        self.name = name
        self.description = description
        self.background = background
        self.takes_cards = cards
        query = {"type": "string", "minLength": 1, "description": f"{_QUERY} but the cards" if cards else _QUERY}
        self.parameters = {
            "type": "object",
            "properties": {"query": query, "cards": _CARDS} if cards else {"query": query},
            "required": ["query"],
            "additionalProperties": False,
        }
        self._agent = agent
        self._tools = tools
        self._tool_call_limit = tool_call_limit

    @property
    def sub_agent(self) -> tuple[AgentConfig[Any], ToolRegistry | None]:
        """The agent, and the registry that replaces its tools."""
        return self._agent, self._tools

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run the agent on the query and return its answer."""
        try:
            result = await context.spawn(
                self._agent,
                arguments["query"],
                tools=self._tools,
                tool_call_limit=self._tool_call_limit,
                cards=arguments.get("cards", ()),
            )
        except RunError as error:
            raise ToolError(f"{self._agent.name} failed: {error}") from error
        text, is_error = agent_answer(self._agent.name, result.status, result.text, result.error)
        if is_error:
            raise ToolError(text)
        answer = result.messages[-1] if result.messages else None
        media = answer.media if isinstance(answer, AssistantMessage) else ()
        return ToolResult(result.text if media else text, summary=None, media=media)


class TargetAgentTool(AgentTool):
    """A tool that lets the processes of a target run an agent; see `delegate`."""

    remote = True

    def __init__(self, *arguments: Any, target: str, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._target = target

    @property
    def answering_target(self) -> str:
        """The target whose processes run the agent."""
        return self._target

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> Pending:  # type: ignore[override]
        """Hand the query over; the end of the agent's run answers the call."""
        task: dict[str, Any] = {"agent": self._agent.name, "message": arguments["query"]}
        if self._tool_call_limit is not None:
            task["tool_call_limit"] = self._tool_call_limit
        if "cards" in arguments:
            task["cards"] = arguments["cards"]
        return Pending(note=f"the answer of {self._agent.name}", target=self._target, task=task)


class DelegateSettings(TypedDict, total=False):
    """Settings for how an agent works with the sub-agent of `delegate`."""

    background: bool
    """True for calls that return a handle at once; the answer follows in a message."""
    target: str
    """The target of a fleet whose processes run the sub-agent."""
    cards: bool
    """True for calls that may hand earlier results to the sub-agent by their ids."""


def delegate(
    agent: AgentConfig[Any],
    *,
    name: str | None = None,
    description: str,
    tools: Sequence[Tool] | None = None,
    selection_rule: str = "",
    tool_call_limit: int | None = None,
    **settings: Unpack[DelegateSettings],
) -> Tool:
    """Return a tool that gives a task to *agent* and returns its answer.

    The sub-agent sees only the task, not the conversation. *tools* replaces its own tools. Its events are in the
    parent's stream, and its usage and tool calls are added to the parent's. Several calls in one turn run concurrently.
    `DelegateSettings` has the *settings*:

    With *cards*, each result that the parent's model reads ends with an id, and a call may name earlier results by
    their ids. The sub-agent reads these whole, and no others. It may hand them on in the same way.

    With *background*, a call returns a handle at once, and the parent continues. The answer follows in a message before
    a later step. The parent does not end earlier: with nothing else to do, it waits, and it is suspended while all
    remaining sub-agents wait for answers from outside. At the limits of `tool_calls` and `steps` it waits for running
    sub-agents; at other limits it stops them.

    With *target*, the sub-agent is a run of its own in the processes of that target of the fleet, which must list the
    agent; its own tools apply. The parent is suspended meanwhile, as for an approval, so it needs a store. Its limits
    and its budget apply to the sub-agent, and a stop ends both.

    Raises `ConfigurationError` if *agent* is not an agent, or if *target* is invalid or comes with *tools* or
    *background*.
    """
    if not isinstance(agent, AgentConfig):
        raise ConfigurationError(f"{agent!r:.80} is not an agent; pass an instance of a subclass of AgentConfig")
    check_whole("delegate", "tool_call_limit", tool_call_limit, 0, optional=True)
    if agent.parts:
        check_parts(agent)
    registry = None if tools is None else ToolRegistry(tools)
    if unknown := settings.keys() - DelegateSettings.__annotations__.keys():
        raise TypeError(f"delegate({min(unknown)}=...): there is no such setting; see DelegateSettings")
    background, cards = settings.get("background", False), settings.get("cards", False)
    parts = (agent, name or agent.name, description, registry, tool_call_limit)
    made = AgentTool(*parts, background=background, cards=cards)
    if target := settings.get("target", ""):
        check_target(target)
        if tools is not None or background:
            shown = f"delegate(target={target!r:.80})"
            raise ConfigurationError(f"{shown} takes neither tools nor background: leave them out")
        made = TargetAgentTool(*parts, background=False, cards=cards, target=target)
    made.selection_rule = selection_rule
    return made
