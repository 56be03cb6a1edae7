"""The events of a run whose data policy has patterns, on their way to the stream of its tree."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..events import ReasoningDelta, RunEvent, TextDelta, ToolCallDelta, ToolDone, ToolFailed, ToolStreamed
from .event_stream import Emit, EventStream
from .journal.lease import Tree
from .journal.patterns import RedactedPieces, Redactor

_TEXTS = ("task", "error", "text", "arguments", "content", "note", "step", "data")
"""Fields of events that contain what people, models or tools wrote."""


class RedactedStream:
    """An `EventStream` that receives only redacted events."""

    __slots__ = ("_inner", "_pieces", "_redactor")

    def __init__(self, inner: EventStream | RedactedStream, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor
        self._pieces = RedactedPieces(redactor, inner.put)

    @property
    def behind(self) -> bool:
        """True while the consumer is far behind."""
        return self._inner.behind

    def put(self, event: RunEvent) -> None:
        """Add *event*. The model's pieces are redacted already, in `Attempt`, which knows where an answer ends."""
        if isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
            self._inner.put(event)
            return
        if isinstance(event, ToolStreamed):
            self._pieces.put(event)
            return
        if isinstance(event, ToolDone | ToolFailed):
            self._pieces.flush(event.call_id)
        texts = {name: value for name in _TEXTS if (value := getattr(event, name, None)) is not None}
        changed: dict[str, Any] = {name: self._redactor.value(value) for name, value in texts.items()}
        self._inner.put(event if changed == texts else dataclasses.replace(event, **changed))

    def emitter(self, run_id: str, path: str, tree: Tree) -> Emit:
        """Return the function that emits the events of one run of *tree*."""

        def emit(event: type[Any], *fields: Any) -> None:
            self.put(event(run_id, path, tree.content_index, *fields))

        return emit

    async def drained(self) -> None:
        """Wait while the consumer is far behind."""
        await self._inner.drained()

    def close(self) -> None:
        """Drop events from now on."""
        self._inner.close()
