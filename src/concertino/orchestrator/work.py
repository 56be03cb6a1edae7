"""Work outside turns: the questions and calls of a run's hooks and tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tools.ask_settings import AskSettings
from ..tools.base import ToolContext, ToolResult
from .hooks import Hooks
from .model_call.ask import ask, question_of
from .run import Prompt, RunSession
from .tool_calls.context import Spawn
from .tool_calls.direct import call_directly, direct_key


class OutsideWork:
    """The work of one run outside its turns, created when a hook or a tool first asks or calls something."""

    __slots__ = ("_equal", "_hooks", "_run", "_spawn")

    def __init__(self, run: RunSession, hooks: Hooks, spawn: Spawn) -> None:
        self._run = run
        self._hooks = hooks
        self._spawn = spawn
        self._equal: dict[str, int] = {}
        """The number of equal calls so far, by the part of the key that they share."""

    async def ask(self, by: ToolContext | None, prompt: Prompt, output_type: Any, settings: AskSettings) -> Any:
        """See `Work.ask`."""
        return await ask(self._run, self._hooks, by, question_of(prompt, output_type, settings))

    async def call(self, by: ToolContext | None, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """See `Work.call`."""
        shared, text = direct_key(self._run, by, tool, arguments)
        self._equal[shared] = count = self._equal.get(shared, 0) + 1
        return await call_directly(self._run, self._hooks, self._spawn, by, f"{shared}.{count}", tool, text)
