"""The events of a run tree on their way to the consumer, in the order in which they happen."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any, Protocol

from ..events import ReasoningDelta, RunEnded, RunEvent, TextDelta, ToolCallDelta, ToolDone, ToolFailed, ToolStreamed
from ..scope import Scope
from .journal.data_policy import NOTHING, DataPolicy
from .journal.lease import Tree
from .journal.patterns import RedactedPieces, Redactor

log = logging.getLogger("concertino")

Observer = Callable[[RunEvent], None]
"""Sees every event as the data policy leaves it, and decides nothing. A failure is logged and changes nothing."""
_HIGH_WATER = 1_000
_TEXTS = ("task", "error", "text", "arguments", "content", "note", "step", "data", "value", "summary")
"""Fields of events that contain what people, models or tools wrote."""


class EventRecorder(Protocol):
    """Takes the events of a tree instead of a consumer, and keeps them in a log."""

    def put(self, event: RunEvent) -> bool:
        """Take *event*. Return whether the log is far behind."""

    async def drained(self) -> None:
        """Wait while the log is far behind."""

    def open(self, tree: Tree, scope: Scope) -> None:
        """Begin the log of *tree*, whose root is recorded and claimed, or continue its `stored_events`."""

    def flush(self, run_id: str = "", seq: int = 0) -> None:
        """Pass the events so far to the store, before the entry *seq* of a run's journal that covers them."""

    def leave(self) -> None:
        """Record no end: the root has none in its journal, and may be resumed."""


class Emit(Protocol):
    """Creates an event of one run from its class and its own fields, and puts it into the stream."""

    def __call__(self, event: type[Any], *fields: Any) -> None:
        """Create and put an *event* with these *fields* after the run's id, its agent path and the content index."""


def emitter(stream: EventStream | RedactedStream, run_id: str, path: str, tree: Tree) -> Emit:
    """Return the function that emits the events of one run of *tree* into *stream*."""
    put = stream.put

    def emit(event: type[Any], *fields: Any) -> None:
        put(event(run_id, path, tree.content_index, *fields))

    return emit


def ignore(event: type[Any], *fields: Any) -> None:
    """Create no event: the run has no consumer and no observers."""


class EventStream:
    """The way of events from the engine to one consumer or to a recorder, and to observers.

    A run without any of them has no stream, and creates no events. Sub-agents put their events into their
    root's stream.
    """

    __slots__ = (
        "_consumed",
        "_events",
        "_loop",
        "_observed",
        "_observers",
        "_policies",
        "_read",
        "_recorder",
        "_thread",
        "_waiter",
        "behind",
        "closed",
    )

    def __init__(
        self,
        observers: Sequence[Observer],
        policies: Mapping[str, DataPolicy],
        *,
        consumed: bool = True,
        recorder: EventRecorder | None = None,
    ) -> None:
        self.closed = False
        self.behind = False
        """True while the consumer is far behind."""
        self._observers = observers
        if observers:
            from .journal.event_policy import observed_event  # noqa: PLC0415 - few runs have observers

            self._observed = observed_event
        self._policies = policies
        self._consumed = consumed
        self._recorder = recorder
        self._events: deque[RunEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._read: asyncio.Event | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def put(self, event: RunEvent) -> None:  # noqa: C901 - each call would be one for every event
        """Add *event*, from any thread. Events after `close` are dropped."""
        if self.closed:
            return
        if get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.put, event)
            return
        if self._observers:
            seen: RunEvent | None = event
            policy, kind = self._policies.get(event.run_id, NOTHING), type(event)
            # Most events are shown whole.
            if not policy.keeps_everything or kind is RunEnded or (kind is ToolDone and not event.stored):  # type: ignore[union-attr]
                seen = self._observed(policy, event)
            if seen is not None:
                for observe in self._observers:
                    try:
                        observe(seen)
                    except Exception as error:  # noqa: BLE001 - an observer cannot fail a run
                        log.error("an observer failed on %s: %s", type(seen).__name__, type(error).__name__)  # noqa: TRY400 - a traceback may show what the data policy forbids
        if self._recorder is not None:
            self.behind = self._recorder.put(event)
        elif self._consumed:
            self._events.append(event)
            self.behind = len(self._events) > _HIGH_WATER
            if (waiter := self._waiter) is not None:
                self._waiter = None
                if not waiter.done():
                    waiter.set_result(None)

    async def drained(self) -> None:
        """Wait while the consumer is far behind, so that a fast run does not fill the memory."""
        if self._recorder is not None:
            await self._recorder.drained()
            self.behind = False
        while self.behind and not self.closed:
            if self._read is None:
                self._read = asyncio.Event()
            self._read.clear()
            await self._read.wait()

    async def take(self, task: asyncio.Task[Any]) -> Sequence[RunEvent]:
        """Wait for events and take all there are; none when *task*, which produces them, has ended.

        The caller makes *task* call `wake` when it ends.
        """
        while not self._events:
            if task.done():
                return ()
            self._waiter = waiter = self._loop.create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        events, self._events = self._events, deque()
        self.behind = False
        if self._read is not None:
            self._read.set()
        return events

    def close(self) -> None:
        """Drop events from now on; those in the queue can still be read."""
        self.closed = True
        if self._read is not None:
            self._read.set()

    def leave(self) -> None:
        """Keep nothing more for the consumer, who has left. Observers see the run to its end."""
        self._consumed = self.behind = False
        if self._observers:
            self._events.clear()
            if self._read is not None:
                self._read.set()
        else:
            self.close()

    def wake(self, _task: asyncio.Task[Any]) -> None:
        """Wake the consumer: the task that produces events has ended."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


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
        if isinstance(event, ToolDone) and event.media:
            texts["media"] = event.media
            clean = [dataclasses.replace(each, name=self._redactor.text(each.name)) for each in event.media]
            changed["media"] = tuple(clean)
        self._inner.put(event if changed == texts else dataclasses.replace(event, **changed))

    async def drained(self) -> None:
        """Wait while the consumer is far behind."""
        await self._inner.drained()

    def close(self) -> None:
        """Drop events from now on."""
        self._inner.close()
