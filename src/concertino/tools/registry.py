"""The registry: which tools an agent has."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConfigurationError
from ..messages import ToolSpec
from .base import Tool, check_tool

BASE_PROMPT = (
    "You are a careful assistant in a chat. Use a tool when it gives a better answer than you can give without it, "
    "call tools that do not depend on each other in one turn, and say so plainly when something could not be done."
)


class ToolRegistry:
    """The tools of one agent, by name, in the order of their registration.

    Every run takes a copy, so that a hook may clear the tools of its own run.
    """

    def __init__(self, tools: Iterable[Tool] = (), base_prompt: str = BASE_PROMPT) -> None:
        self._tools: dict[str, Tool] = {}
        self._base_prompt = base_prompt
        self._specs: tuple[ToolSpec, ...] | None = None
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add *tool*. Raises `ConfigurationError` if another one has its name, or if it is no tool."""
        check_tool(tool)
        if self._tools.get(tool.name, tool) is not tool:
            raise ConfigurationError(f"a tool named {tool.name!r} is registered already; unregister it first")
        self._tools[tool.name] = tool
        self._specs = None

    def unregister(self, name: str) -> None:
        """Take the tool called *name* out; an unknown name does nothing."""
        self._tools.pop(name, None)
        self._specs = None

    def clear(self) -> None:
        """Take all tools out."""
        self._tools.clear()
        self._specs = None

    def get(self, name: str) -> Tool | None:
        """The tool called *name*."""
        return self._tools.get(name)

    def all(self) -> tuple[Tool, ...]:
        """All tools."""
        return tuple(self._tools.values())

    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """All tools as a model sees them; the same tuple until the registry changes."""
        if self._specs is None:
            self._specs = tuple(tool.spec for tool in self._tools.values())
        return self._specs

    def base_prompt(self) -> str:
        """The prompt for an agent that has none of its own."""
        return self._base_prompt

    def copy(self) -> ToolRegistry:
        """A registry with the same tools."""
        copy = ToolRegistry(base_prompt=self._base_prompt)
        copy._tools = dict(self._tools)
        copy._specs = self._specs
        return copy

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools
