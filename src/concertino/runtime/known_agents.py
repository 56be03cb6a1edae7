"""The agents that a process can run, and the tools that it runs for other processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ConfigurationError
from ..orchestrator.agent import AgentConfig, check_parts
from ..orchestrator.journal.data_policy import policy_of
from ..orchestrator.validation import registry_of
from ..targets import called_tool, tool_run
from ..tools.base import Tool
from ..tools.registry import ToolRegistry
from .fleet import Fleet
from .own_agent import OwnAgent
from .title import TitleAgent
from .tool_run import ToolRun

Runnable = AgentConfig[Any] | tuple[AgentConfig[Any], ToolRegistry] | Tool
"""What a process runs: an agent, alone or with the registry that replaces its tools, or a tool with a target."""
KnownAgent = tuple[AgentConfig[Any], ToolRegistry | None]
"""An agent, and the registry that it is given in place of its own tools."""


class KnownAgents(dict[str, KnownAgent]):
    """Agents by name, and tools for runs of other processes.

    Raises `ConfigurationError` for anything else, for an agent with invalid parts, and for a tool without a target.
    """

    def __init__(self, agents: Sequence[Runnable]) -> None:
        for agent in agents:
            config, registry = agent if isinstance(agent, tuple) else (agent, None)
            if isinstance(config, Tool):
                continue
            if not isinstance(config, AgentConfig):
                raise ConfigurationError(
                    f"Runtime(agents=...) contains {config!r:.80}; use agents, pairs with a registry, or tools with a "
                    "target"
                )
            if config.parts:
                check_parts(config)
            self[config.name] = (_unreserved(config), registry)
        self._tools: dict[str, Tool] = {}
        """By the name of their runs."""
        for tool in ToolRegistry([each for each in agents if isinstance(each, Tool)]):
            if not tool.target:
                raise ConfigurationError(
                    f"Runtime(agents=...) contains tool {tool.name!r}, which has no target: use @tool(target=...), or "
                    "give it to an agent"
                )
            self._tools[tool_run(tool.target, tool.name)] = tool

    def checked(self, fleet: Fleet) -> Fleet:
        """Return *fleet*, whose targets and allowed tools fit the agents.

        Raises `ConfigurationError` if a tool of an agent calls a target that the fleet does not have, or if
        `allowed_tools` names an agent that this process should have. Tools that an agent loads for a run are not known
        yet: their calls fail when they are made.
        """
        found = self._with_sub_agents()
        for name, tools in found.items():
            for tool in tools:
                if tool.answering_target:
                    fleet.check_called(tool.answering_target, f"tool {tool.name!r} of agent {name!r}")
        fleet.check_allowed({*found, TitleAgent.name})
        return fleet

    def _with_sub_agents(self) -> dict[str, ToolRegistry]:
        """Return the tools of the agents and of their sub-agents, by agent."""
        found: dict[str, ToolRegistry] = {}
        left = list(self.values())
        while left:
            config, registry = left.pop()
            if config.name not in found:
                found[config.name] = registry_of(config, registry)
                left += [tool.sub_agent for tool in found[config.name] if tool.sub_agent is not None]
        return found

    def names(self) -> list[str]:
        """Return the names of all runs that this process can continue."""
        return [*self, TitleAgent.name, *self._tools]

    def take(self, agent: AgentConfig[Any] | str) -> KnownAgent:
        """Return the agent of this name; an agent that is new is known from then on.

        Raises `ConfigurationError` for the name of an agent that is not known.
        """
        if isinstance(agent, OwnAgent):
            return agent, None
        name = agent if isinstance(agent, str) else agent.name
        if name not in self:
            if isinstance(agent, str):
                known = ", ".join(self) or "none"
                raise ConfigurationError(
                    f"this runtime has no agent {name!r}; it has: {known}. Pass it to Runtime(agents=...)"
                )
            self[name] = (_unreserved(agent), None)
        return self[name]

    def take_stored(self, name: str, policy: Sequence[Any]) -> KnownAgent:
        """Return the agent of a run whose data policy has the form *policy*, also one of the runtime itself.

        Raises `ConfigurationError` if this process does not have it.
        """
        if name == TitleAgent.name:
            return TitleAgent(policy_of(policy)), None
        if (called := called_tool(name)) is None:
            return self.take(name)
        if (tool := self._tools.get(name)) is None:
            target, missing = called
            raise ConfigurationError(
                f"no tool {missing!r} for target {target!r} in the process that took the call: pass it to "
                "Runtime(agents=...)"
            )
        return ToolRun(tool, policy_of(policy)), None


def _unreserved(agent: AgentConfig[Any]) -> AgentConfig[Any]:
    """Return *agent*. Raises `ConfigurationError` if it has the name of an agent of the runtime itself."""
    if agent.name == TitleAgent.name:
        raise ConfigurationError(f"the agent name {agent.name!r} is reserved: the runtime writes titles under it")
    if called_tool(agent.name) is not None:
        raise ConfigurationError(f"the agent name {agent.name!r} is reserved: the runtime calls tools under such names")
    return agent
