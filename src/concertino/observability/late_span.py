"""Spans that a thread makes afterwards: the event loop only chooses their ids, which takes a tenth of the time."""

from __future__ import annotations

import random
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
)

from .metrics import Attributes
from .span_thread import SpanThread

_bits = random.Random().getrandbits  # noqa: S311 - ids are not secret


class LateSpan(NonRecordingSpan):
    """A span that other spans may name as their parent at once. What a tool adds to it is added to `real`, later."""

    def __init__(self, context: SpanContext, thread: SpanThread) -> None:
        super().__init__(context)
        self.real: Span = INVALID_SPAN
        self._thread = thread

    def is_recording(self) -> bool:
        """Return whether the span above it is sampled."""
        return self.get_span_context().trace_flags.sampled

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """See `Span`."""
        self._later("set_attributes", attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        """See `Span`."""
        self._later("set_attribute", key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """See `Span`."""
        self._later("add_event", name, attributes, timestamp or time_ns())

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
        self._thread.put(self._do, method, arguments)

    def _do(self, method: str, arguments: tuple[Any, ...]) -> None:
        getattr(self.real, method)(*arguments)


def real(span: Span) -> Span:
    """Return the span that is exported; call this in the thread."""
    return span.real if isinstance(span, LateSpan) else span


class SpanStarter:
    """Starts spans: late ones, unless they have no parent or the SDK takes no ids."""

    def __init__(self, tracer: Tracer, thread: SpanThread) -> None:
        self.tracer = tracer
        self._thread = thread
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
        span_above: Span | None = None,
    ) -> Span:
        """Return a span that has begun. *span_above* is that of *parent*, if it is known: to find it takes a while."""
        above = (span_above or get_current_span(parent)).get_span_context()
        if self._ids is None or not above.is_valid:
            return self.tracer.start_span(name, parent, kind, labels, start_time=began)
        own = SpanContext(above.trace_id, _bits(64) or 1, False, above.trace_flags, above.trace_state)
        span = LateSpan(own, self._thread)
        self._thread.put(self._make, self._ids, span, (name, parent, kind, labels, (), began))
        return span

    def _make(self, ids: _ChosenIds, span: LateSpan, arguments: tuple[Any, ...]) -> None:
        ids.chosen = span.get_span_context().span_id
        try:
            span.real = self.tracer.start_span(*arguments)
        finally:
            ids.chosen = 0


class _ChosenIds:
    """The ids of a tracer, of which the next can be chosen."""

    def __init__(self, ids: Any) -> None:
        self._ids = ids
        self.chosen = 0

    def generate_span_id(self) -> int:
        """Return the chosen id, once, or a new one."""
        chosen, self.chosen = self.chosen, 0
        return chosen or int(self._ids.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ids, name)
