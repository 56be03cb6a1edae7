"""Tools that return recorded results instead of working."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ..errors import ToolError
from ..messages import AssistantMessage, ToolCall
from ..orchestrator.agent import AgentConfig
from ..orchestrator.plain import plain
from ..orchestrator.tool_calls.tool_call import NOT_ENABLED, NotEnabledError
from ..token_engine.digests import RECALL
from ..tools.base import Tool, ToolContext, ToolResult
from ..tools.registry import BASE_PROMPT, ToolRegistry
from .recorded_run import RecordedRun

UNRECORDED = "the replay has no recorded result of this call"


class Results(Protocol):
    """Supplies the results of the calls of a run whose tools do not work."""

    def of(self, tool: Tool, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the result of a call. Raises `ToolError`."""


class GivenResults:
    """Results of calls: the tool, the arguments, and a value or an error to raise.

    A call gets the unused result of its tool whose arguments are its own, or else the first one of its tool: hooks and
    validation may change arguments.
    """

    def __init__(self, results: Iterable[tuple[str, Mapping[str, Any], Any]]) -> None:
        self._left = list(results)

    def of(self, tool: Tool, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the result of a call. Raises `ToolError` if it is an error, or if no result is left."""
        own = [each for each in self._left if each[0] == tool.name]
        if not own:
            raise ToolError(UNRECORDED)
        given = {name: plain(value) for name, value in arguments.items()}
        found = max(own, key=lambda each: _likeness(each[1], given))
        self._left.remove(found)
        value = found[2]
        if isinstance(value, ToolError):
            raise value
        return value if isinstance(value, ToolResult) else ToolResult(value)


class ToolResults:
    """The results of the calls of one replay, by the call's id."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._new: list[ToolCall] = []
        self.missing: list[str] = []
        """The tools whose calls have no recorded result."""

    def expect(self, message: AssistantMessage) -> None:
        """Give the calls of *message*, which was not recorded, the results of recorded calls like them.

        The engine may change the ids of these calls, but not the order in which calls of one tool begin.
        """
        self._new = list(message.tool_calls)

    def of(self, tool: Tool, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the result of a call. Raises `ToolError` with the recorded error, or if there is no result."""
        new = next((call for call in self._new if call.name in (tool.name, tool.spec.name)), None)
        if new is None:
            outcome = self._run.outcomes.get(call_id)
        else:
            self._new.remove(new)
            outcome = self._run.outcome_like(replace(new, name=tool.name))
        if outcome is None:
            self.missing.append(tool.name)
            raise ToolError(UNRECORDED)
        message = outcome.message
        if message.is_error:
            raise NotEnabledError(NOT_ENABLED) if message.content == NOT_ENABLED else ToolError(message.content)
        content = message.content if message.whole is None else message.whole
        return ToolResult(content, outcome.data, message.summary, message.media, message.stored, outcome.ends_run)


class RecordedTool(Tool):
    """A tool whose arguments are checked, and whose calls return their recorded results."""

    timeout = None
    effect = "read"

    def __init__(self, tool: Tool, results: Results) -> None:
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.selection_rule, self.counts_as_iteration = tool.selection_rule, tool.counts_as_iteration
        self.retain, self.max_tokens, self.max_bytes = tool.retain, tool.max_tokens, tool.max_bytes
        self.exclusive, self.shown, self.takes_cards = tool.exclusive, tool.shown, tool.takes_cards
        self.spec = tool.spec
        self.validate = tool.validate  # type: ignore[method-assign]  # a recorded call may be invalid for a new schema
        self._results = results

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return the recorded result."""
        return self._results.of(self, context.call_id, arguments)


class RecordedTools(ToolRegistry):
    """A registry that replaces each tool by a `RecordedTool`, also the tools of hooks and parts."""

    def __init__(self, tools: Iterable[Tool], results: Results, base_prompt: str = BASE_PROMPT) -> None:
        self._results = results
        self._made: dict[int, RecordedTool] = {}
        super().__init__(tools, base_prompt)

    def register(self, tool: Tool) -> None:
        """Add a tool with recorded results. The engine's own tool that recalls results only reads the conversation."""
        if tool.name != RECALL:
            tool = self._made.setdefault(id(tool), RecordedTool(tool, self._results))
        super().register(tool)

    @classmethod
    def of(cls, config: AgentConfig[Any], registry: ToolRegistry | None, results: Results) -> RecordedTools:
        """Return a registry for *config* with these results; see `ToolOrchestrator` for *registry*."""
        if registry is None:
            return cls(config.tools, results)
        return cls(registry, results, registry.base_prompt())

    def copy(self) -> RecordedTools:
        """Return a registry with the same tools."""
        made = RecordedTools((), self._results, self.base_prompt())
        made.by_name, made.sent_names, made._made = dict(self.by_name), dict(self.sent_names), self._made
        made.takes_cards = self.takes_cards
        return made


def _likeness(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Return the number of recorded arguments, all of which are among the *given* ones; -1 if one is not."""
    return len(recorded) if all(name in given and given[name] == value for name, value in recorded.items()) else -1
