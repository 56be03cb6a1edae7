"""What one tool call is given: the engine's side of `ToolContext`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from ..events import RunResult, ToolProgress, ToolStreamed, UsageRecorded
from ..messages import ToolCall
from ..tools.context import Session, ToolContext
from ..tools.progress import Progress
from ..tools.registry import ToolRegistry
from ..usage import Tokens
from .opening import Parent
from .run import Run

SpawnFor = Callable[..., Awaitable[RunResult]]
"""Starts a sub-agent: for which call, and what `spawn` takes."""


class CallContext(ToolContext):
    """One call of one run."""

    __slots__ = ("_call", "_ordinal", "_progress", "_run", "_spawn", "_spawned")

    def __init__(self, run: Run[Any], call: ToolCall, spawn: SpawnFor, ordinal: int) -> None:
        self._run = run
        self._call = call
        self._spawn = spawn
        self._ordinal = ordinal
        self._progress: Progress | None = None
        self._spawned = 0

    @property
    def run_id(self) -> str:  # type: ignore[override]  # a read-only attribute is all that the port promises
        return self._run.id

    @property
    def call_id(self) -> str:  # type: ignore[override]
        return self._call.id

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
        registry: ToolRegistry | None = None,
        tool_call_limit: int | None = None,
    ) -> RunResult:
        """See `ToolContext.spawn`."""
        self._spawned += 1
        element = f"{agent.name}-{self._ordinal}" + (f".{self._spawned}" if self._spawned > 1 else "")
        ordinal = self._run.next_number("sub-agent", self._call.id)
        parent = Parent(self._run, self._call.id, element, ordinal)
        return await self._spawn(parent, agent, task, registry, tool_call_limit)

    def add_usage(self, *, provider: str, model: str, tokens: Tokens) -> None:
        """See `ToolContext.add_usage`."""
        run = self._run
        booking = run.next_number("booking", self._call.id)
        record = run.record(f"{self._call.id}.{booking}", provider, model, tokens, (self._call.name,))
        run.book(record)
        run.mailbox.put(UsageRecorded(run.id, run.path, run.index.value, record))

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


def as_text(value: Any) -> str:
    """Text as it is; anything else as JSON, and what JSON does not know as its own text."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else _ENCODER.encode(value)  # the encoder is slow with single values


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain)
