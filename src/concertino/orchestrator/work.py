"""Work outside turns: the questions and calls of a run's hooks and tools, and calls in the background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..tools.ask_settings import AskSettings
from ..tools.base import ToolContext, ToolResult
from .hooks import Hooks
from .model_call.ask import ask, question_of
from .run import Prompt, RunSession
from .tool_calls.background import BackgroundCalls
from .tool_calls.context import Spawn
from .tool_calls.direct import call_directly, direct_key
from .tool_calls.tool_call import Call


class OutsideWork:
    """The work of one run outside its turns, created when a hook or a tool first needs it."""

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

    def start_in_background(self, call: Call, arguments: dict[str, Any], *, again: bool) -> str:
        """Start a background call of a turn and return the text that the model reads now."""
        return self._background().start(call, arguments, again=again)

    def restore_background(self, rows: Iterable[Sequence[Any]]) -> None:
        """Start the background calls that an earlier process left."""
        self._background().restore(rows)

    def _background(self) -> BackgroundCalls:
        if self._run.background is None:
            self._run.background = BackgroundCalls(self._run, self._hooks, self._spawn)
        return self._run.background
