"""What one tool call is given: the engine's side of `ToolContext`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ...events import RunResult, ToolProgress, ToolStreamed, UsageRecorded
from ...ids import call_key, usage_id
from ...messages import ToolCall
from ...tools.base import Session, Tool, ToolContext
from ...tools.progress import Progress
from ...tools.registry import ToolRegistry
from ...usage import Tokens
from ..lifecycle.open import Parent
from ..run import Run

SpawnFor = Callable[..., Awaitable[RunResult]]
"""Starts a sub-agent: for which call, and what `spawn` takes."""

_AT_ONCE = 4
"""How many calls a turn is taken to have while it is still being written."""


class ChildWaits(Exception):  # noqa: N818 - no error: how `spawn` tells the dispatch, and nobody else, that it waits
    """A sub-agent of the call is suspended, and so is the call."""


class CallContext(ToolContext):
    """One call of one run."""

    __slots__ = ("_again", "_booked", "_call", "_ordinal", "_place", "_progress", "_run", "_spawn", "_spawned", "_step")

    def __init__(self, run: Run[Any], call: ToolCall, spawn: SpawnFor, ordinal: int, place: int, again: bool) -> None:
        self._run = run
        self._call = call
        self._spawn = spawn
        self._ordinal = ordinal
        self._place = place
        self._step = run.state.step
        self._again = again
        self._booked = 0
        self._progress: Progress | None = None
        self._spawned = 0

    @property
    def run_id(self) -> str:  # type: ignore[override]  # a read-only attribute is all that the port promises
        return self._run.id

    @property
    def call_id(self) -> str:  # type: ignore[override]
        return self._call.id

    @property
    def key(self) -> str:  # type: ignore[override]
        return call_key(self._run.id, self._step, self._place)

    @property
    def tool(self) -> str:  # type: ignore[override]
        return self._call.name

    @property
    def agent_path(self) -> str:  # type: ignore[override]
        return self._run.path

    @property
    def session(self) -> Session:  # type: ignore[override]
        return self._run.chat.session

    @property
    def deps(self) -> Any:
        return self._run.chat.deps

    @property
    def progress(self) -> Progress:  # type: ignore[override]
        if self._progress is None:
            self._progress = Progress(lambda step: self.emit(ToolProgress, step))
        return self._progress

    async def spawn(
        self,
        agent: Any,
        task: str,
        *,
        tools: Iterable[Tool] | None = None,
        tool_call_limit: int | None = None,
    ) -> RunResult:
        """See `ToolContext.spawn`."""
        self._spawned += 1
        element = f"{agent.name}-{self._ordinal}" + (f".{self._spawned}" if self._spawned > 1 else "")
        parent = Parent(self._run, self._call.id, self.key, element, self._spawned, self._again)
        registry = tools if tools is None or isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        result = await self._spawn(parent, agent, task, registry, tool_call_limit)
        if result.status == "suspended":
            raise ChildWaits
        return result

    def add_usage(self, *, provider: str, model: str, tokens: Tokens) -> None:
        """See `ToolContext.add_usage`."""
        run = self._run
        self._booked += 1
        usage = usage_id(run.id, run.state.step, f"call{self._place}.{self._booked}")
        record = run.record(usage, provider, model, tokens, (self._call.name,))
        run.book(record)
        run.mailbox.put(UsageRecorded(run.id, run.path, run.index.value, record))

    def recall(self, handle: str) -> str | None:
        """See `ToolContext.recall`."""
        return self._run.window.recall(handle)

    def truncate(self, text: str, reserve: int = 0) -> str:
        """See `ToolContext.truncate`."""
        run, tool = self._run, self._run.registry.get(self._call.name)
        most = run.window.allowance(run.calls_at_once or _AT_ONCE, None if tool is None else tool.max_tokens) - reserve
        return text if len(text) <= most and text.isascii() else run.chat.counter.cut(text, max(most, 1))

    def stream(self, content: str) -> None:
        """See `ToolContext.stream`."""
        self.emit(ToolStreamed, content)

    def emit(self, kind: Any, *details: Any) -> None:
        """Put an event about this call into the run's stream."""
        run, call = self._run, self._call
        run.mailbox.put(kind(run.id, run.path, run.index.value, call.id, call.name, *details))

    def end_progress(self) -> list[dict[str, Any]]:
        """End what is still open; all steps, as they are to be stored."""
        if self._progress is None:
            return []
        self._progress.end()
        return self._progress.serialize()
