"""Spans that a thread makes at their end: their ids, what a tool adds to them, and processors that fail."""

from __future__ import annotations

import threading
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import get_current_span, set_span_in_context

from concertino.observability.late_span import LateSpan, SpanStarter
from concertino.observability.span_thread import SpanThread

from .kit import Collected, attributes


class Slow(type(ALWAYS_ON)):  # type: ignore[misc]
    """A sampler that waits in the thread of late spans until the other thread has begun a span."""

    def __init__(self) -> None:
        super().__init__(ALWAYS_ON._decision)
        self.asked, self.begun = threading.Event(), threading.Event()

    def should_sample(self, *arguments: Any, **named: Any) -> Any:
        if arguments[2] == "late":
            self.asked.set()
            assert self.begun.wait(60)
        return super().should_sample(*arguments, **named)


def late_span(collected: Collected) -> tuple[LateSpan, ReadableSpan, SpanThread]:
    """Return a late span, the span above it, and the thread that makes it."""
    above = collected.telemetry.tracer.start_span("above")
    starter = SpanStarter(collected.telemetry.tracer, collected.telemetry.background)
    span = starter.start("late", set_span_in_context(above), {}, 1)
    assert isinstance(span, LateSpan)
    assert isinstance(above, ReadableSpan)
    return span, above, collected.telemetry.background


def end(span: LateSpan) -> None:
    span.real().end()


def test_a_span_that_begins_meanwhile_does_not_take_its_id() -> None:
    collected, sampler = Collected(), Slow()
    collected.telemetry.tracer.sampler = sampler  # type: ignore[attr-defined]
    span, _, thread = late_span(collected)
    thread.put(end, span)
    assert sampler.asked.wait(60)
    other = collected.telemetry.tracer.start_span("other")
    sampler.begun.set()
    assert collected.named("late")[0].context.span_id == span.get_span_context().span_id
    assert other.get_span_context().span_id != span.get_span_context().span_id


def test_attributes_are_those_of_the_call() -> None:
    collected = Collected()
    span, _, thread = late_span(collected)
    given: dict[str, Any] = {"rows": 1}
    span.set_attributes(given)
    span.add_event("read", given)
    given["rows"] = 2
    thread.put(end, span)
    (made,) = collected.named("late")
    assert attributes(made) == {"rows": 1}
    assert dict(made.events[0].attributes or {}) == {"rows": 1}


def test_a_processor_that_fails_gets_a_span_once() -> None:
    class Failing(SpanProcessor):
        begun = 0

        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if span.name == "late":
                self.begun += 1
                assert get_current_span(parent_context).get_span_context() == span.parent
                raise OSError("full")

    collected, failing = Collected(), Failing()
    collected.provider.add_span_processor(failing)
    span, _, thread = late_span(collected)
    for number in range(3):
        span.set_attribute("number", number)
    thread.put(end, span)
    assert collected.telemetry.flush()
    assert failing.begun == 1
