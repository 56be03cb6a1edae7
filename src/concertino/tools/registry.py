"""The registry: the tools of an agent, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..errors import ConfigurationError
from ..messages import ToolSpec
from .base import Tool, check_tool

BASE_PROMPT = (
    "You are a careful assistant in a chat. Use a tool when it gives a better answer than you can give without it, "
    "call tools that do not depend on each other in one turn, and say so plainly when something could not be done."
)


class ToolRegistry:
    """The tools of one agent by name, in the order of registration.

    Every run takes a copy, so that a hook may change the tools of its own run.
    """

    takes_cards = False
    """Whether one of the tools takes cards, so that results show their ids."""

    def __init__(self, tools: Iterable[Tool] = (), base_prompt: str = BASE_PROMPT) -> None:
        self.by_name: dict[str, Tool] = {}
        """The tools by name; change them with `register` and `unregister`."""
        self.sent_names: dict[str, str] = {}
        """The names of tools by the name that models see, where these differ."""
        self._base_prompt = base_prompt
        self._allowed: Collection[str] | None = None
        self._specs: tuple[ToolSpec, ...] | None = None
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add *tool*, unless it is not allowed.

        Raises `ConfigurationError` if it is invalid, or if another tool has its name.
        """
        if self._allowed is not None and tool.name not in self._allowed:
            return
        check_tool(tool)
        if type(tool).validate is Tool.validate:
            tool.schema  # noqa: B018 - raises an error if the schema cannot be used
        if self.by_name.get(tool.name, tool) is not tool:
            raise ConfigurationError(f"a tool named {tool.name!r} is already registered; unregister it first")
        sent = tool.spec.name
        other = sent if sent != tool.name and sent in self.by_name else self.sent_names.get(sent, tool.name)
        if other != tool.name:
            raise ConfigurationError(f"models see both {other!r} and {tool.name!r} as {sent!r}; rename one of them")
        self.by_name[tool.name] = tool
        if sent != tool.name:
            self.sent_names[sent] = tool.name
        if tool.takes_cards:
            self.takes_cards = True
        self._specs = None

    def unregister(self, name: str) -> None:
        """Remove the tool called *name*, if there is one."""
        tool = self.by_name.pop(name, None)
        if tool is not None:
            self.sent_names.pop(tool.spec.name, None)
            if tool.takes_cards:
                self.takes_cards = any(left.takes_cards for left in self.by_name.values())
        self._specs = None

    def restrict(self, allowed: Collection[str]) -> None:
        """Remove all tools but those whose names are *allowed*, and add no other tool from now on."""
        self._allowed = allowed
        for name in self.names():
            if name not in allowed:
                self.unregister(name)

    def clear(self) -> None:
        """Remove all tools."""
        self.by_name.clear()
        self.sent_names.clear()
        self.takes_cards = False
        self._specs = None

    def get(self, name: str) -> Tool | None:
        """Return the tool called *name*, or None."""
        return self.by_name.get(name)

    def all(self) -> tuple[Tool, ...]:
        """Return all tools."""
        return tuple(self.by_name.values())

    def names(self) -> tuple[str, ...]:
        """Return the names of all tools."""
        return tuple(self.by_name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return all tools as a model sees them; the same tuple until the registry changes."""
        if self._specs is None:
            self._specs = tuple(tool.spec for tool in self.by_name.values())
        return self._specs

    def base_prompt(self) -> str:
        """Return the system prompt of agents that have none of their own."""
        return self._base_prompt

    def copy(self) -> ToolRegistry:
        """Return a registry with the same tools."""
        copy = ToolRegistry(base_prompt=self._base_prompt)
        copy.by_name = dict(self.by_name)
        copy.sent_names = dict(self.sent_names)
        copy._allowed, copy._specs = self._allowed, self._specs
        if self.takes_cards:  # else the copy has no attribute of its own: every run has one
            copy.takes_cards = True
        return copy

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name
