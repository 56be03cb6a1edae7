"""The agents that a process can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ConfigurationError
from ..orchestrator.agent import AgentConfig, check_parts
from ..tools.registry import ToolRegistry
from .title import unreserved

KnownAgent = tuple[AgentConfig[Any], ToolRegistry | None]
"""An agent, and the registry that it is given in place of its own tools."""


class KnownAgents(dict[str, KnownAgent]):
    """Agents by name. Raises `ConfigurationError` for anything else, and for an agent with invalid parts."""

    def __init__(self, agents: Sequence[AgentConfig[Any] | tuple[AgentConfig[Any], ToolRegistry]]) -> None:
        for agent in agents:
            config, registry = agent if isinstance(agent, tuple) else (agent, None)
            if not isinstance(config, AgentConfig):
                raise ConfigurationError(
                    f"Runtime(agents=...) contains {config!r:.80}; use agents, or pairs with a registry"
                )
            if config.parts:
                check_parts(config)
            self[config.name] = (unreserved(config), registry)

    def take(self, agent: AgentConfig[Any] | str) -> KnownAgent:
        """Return the agent of this name; an agent that is new is known from then on.

        Raises `ConfigurationError` for the name of an agent that is not known.
        """
        name = agent if isinstance(agent, str) else agent.name
        if name not in self:
            if isinstance(agent, str):
                known = ", ".join(self) or "none"
                raise ConfigurationError(
                    f"this runtime has no agent {name!r}; it has: {known}. Pass it to Runtime(agents=...)"
                )
            self[name] = (unreserved(agent), None)
        return self[name]
