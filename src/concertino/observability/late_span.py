"""Spans that a thread makes when they end: the event loop only chooses their ids, which takes a tenth of the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from time import time_ns
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from .metrics import Attributes
from .span_thread import SpanThread

_bits = random.Random().getrandbits  # noqa: S311 - ids are not secret
(_SPAN,) = set_span_in_context(INVALID_SPAN, Context())
"""The key of the span in a context."""


class LateSpan(NonRecordingSpan):
    """A span that others may name as their parent at once. The thread makes the real one, for what is added to it.

    It keeps few objects: hundreds of spans wait for the thread, and the garbage collector looks at each of them.
    """

    _own: SpanContext | None = None
    _real: Span | None = None

    def __init__(
        self,
        starter: SpanStarter,
        above: SpanContext,
        name: str,
        parent: Context,
        labels: Attributes,
        began: int,
        kind: SpanKind,
    ) -> None:
        self._starter, self._above, self._parent = starter, above, parent
        self._name, self._labels, self._began, self._kind = name, labels, began, kind
        self._id = _bits(64) or 1

    def get_span_context(self) -> SpanContext:
        """See `Span`."""
        own = self._own
        if own is None:  # for most spans it is never needed
            above = self._above
            own = SpanContext(above.trace_id, self._id, False, above.trace_flags, above.trace_state)
            self._own = own
        return own

    def __repr__(self) -> str:
        return f"LateSpan({self.get_span_context()!r})"

    def real(self) -> Span:
        """Return the span that is exported; call this in the thread."""
        if self._real is None:
            self._real = INVALID_SPAN  # if a processor fails, it does not get the span again
            self._real = self._starter.make(
                self._id, self._name, self._parent, self._kind, self._labels, (), self._began
            )
        return self._real

    def is_recording(self) -> bool:
        """Return whether the span above it is sampled."""
        return self._above.trace_flags.sampled

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """See `Span`."""
        self._later("set_attributes", dict(attributes))  # as it is now

    def set_attribute(self, key: str, value: Any) -> None:
        """See `Span`."""
        self._later("set_attribute", key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """See `Span`."""
        self._later("add_event", name, dict(attributes or ()), timestamp or time_ns())

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """See `Span`."""
        self._later("record_exception", exception, attributes, timestamp or time_ns(), escaped)

    def set_status(self, status: Any, description: str | None = None) -> None:
        """See `Span`."""
        self._later("set_status", status, description)

    def update_name(self, name: str) -> None:
        """See `Span`."""
        self._later("update_name", name)

    def _later(self, method: str, *arguments: Any) -> None:
        self._starter.thread.put(self._do, method, arguments)

    def _do(self, method: str, arguments: tuple[Any, ...]) -> None:
        getattr(self.real(), method)(*arguments)


def with_span(span: Span, parent: Context) -> Context:
    """Return what `set_span_in_context` returns, with one call in place of five: each model and tool call has one."""
    return Context({**parent, _SPAN: span})


def real(span: Span) -> Span:
    """Return the span that is exported; call this in the thread."""
    return span.real() if isinstance(span, LateSpan) else span


class SpanStarter:
    """Starts spans: late ones, unless they have no parent or the SDK takes no ids."""

    def __init__(self, tracer: Tracer, thread: SpanThread) -> None:
        self.tracer = tracer
        self.thread = thread
        self._ids: _ChosenIds | None = None
        if (ids := getattr(tracer, "id_generator", None)) is not None:
            self._ids = tracer.id_generator = _ChosenIds(ids)  # type: ignore[attr-defined]  # not of the interface

    def start(
        self,
        name: str,
        parent: Context,
        labels: Attributes,
        began: int,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        above: SpanContext | None = None,
    ) -> Span:
        """Return a span that has begun. *above* is `above` of the span of *parent*, if it is known."""
        if above is None and (above := self.above(get_current_span(parent))) is None:
            return self.tracer.start_span(name, parent, kind, labels, start_time=began)
        return LateSpan(self, above, name, parent, labels, began, kind)

    def above(self, span: Span) -> SpanContext | None:
        """Return the ids of *span* if those below it can be late: they have a parent, and the SDK takes ids."""
        found = span.get_span_context()
        return found if self._ids is not None and found.is_valid else None

    def make(self, id: int, *arguments: Any) -> Span:
        """Return a span with this *id* and the *arguments* of `Tracer.start_span`; call this in the thread."""
        assert self._ids is not None
        self._ids.chosen = id
        try:
            return self.tracer.start_span(*arguments)
        finally:
            self._ids.chosen = 0


class _ChosenIds(threading.local):
    """The ids of a tracer, of which each thread can choose its next: the event loop also starts spans."""

    chosen = 0

    def __init__(self, ids: Any) -> None:
        self._ids = ids

    def generate_span_id(self) -> int:
        """Return the chosen id, once, or a new one."""
        chosen, self.chosen = self.chosen, 0
        return chosen or int(self._ids.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ids, name)
