"""The part that asks a person before tools run, unless an approval rule allows them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...errors import ConfigurationError
from ...messages import ToolCall
from ...orchestrator.agent import Part
from ...orchestrator.outcome import Allow, Ask
from ...orchestrator.run import RunContext
from ...storage.base import ApprovalRules
from ...tools.base import Effect


class Approvals(Part):
    """Asks a person about the calls of the tools in *names*, and of all tools with one of the *effects*.

    *rules*, a store, has the approval rules of users: after `runtime.approve(scope, key, remember="conversation")` or
    `"always"`, the part no longer asks about this tool. Another part may still ask or deny. *who*, *seconds* and *note*
    are those of `Ask`. Raises `ConfigurationError` if neither names nor effects are given.
    """

    def __init__(
        self,
        *names: str,
        effects: Collection[Effect] = (),
        rules: ApprovalRules | None = None,
        who: tuple[str, ...] = (),
        seconds: float | None = None,
        note: str = "",
    ) -> None:
        if not names and not effects:
            raise ConfigurationError("Approvals() asks for no tool: give names of tools, or effects=('once',)")
        if not all(isinstance(each, str) for each in names) or isinstance(effects, str):
            raise ConfigurationError(f"Approvals({names!r:.80}, effects={effects!r:.80}): use names and a tuple")
        self._names = frozenset(names)
        self._effects = frozenset(effects)
        self._rules = rules
        self._ask = Ask(who=who, seconds=seconds, note=note)

    async def authorize_tool_call(self, run: RunContext[Any], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        """Ask a person about the chosen tools, unless a rule of the user allows the call."""
        tool = run.registry.get(call.name)
        if call.name not in self._names and (tool is None or tool.effect not in self._effects):
            return Allow()
        return Allow() if await is_allowed(self._rules, run, call.name) else self._ask


async def is_allowed(rules: ApprovalRules | None, run: RunContext[Any], tool: str) -> bool:
    """Return whether a rule of the run's user allows the calls of *tool*."""
    scope = run.chat.scope
    if rules is None or not scope.user:
        return False
    return await rules.is_allowed(scope, run.agent, tool, run.chat.conversation_id)
