"""Spans and metrics in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from concertino.observability import OpenTelemetry

Tree = list[Any]


class Collected:
    """Telemetry with all that it has exported."""

    def __init__(self, exporter: SpanExporter | None = None, *, content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(exporter or self._exporter))
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(self.provider, meters, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans, in the order of their start."""
        assert self.telemetry.flush()
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, *beginnings: str) -> list[ReadableSpan]:
        """Return the spans whose names begin with one of *beginnings*."""
        return [span for span in self.spans if span.name.startswith(beginnings)]

    def tree(self) -> Tree:
        """Return the names of all spans: a span without spans below it, or a list of it and those."""
        spans = self.spans
        known = {span.context.span_id for span in spans}

        def below(parent: int | None) -> Iterator[Any]:
            for span in spans:
                above = span.parent.span_id if span.parent and span.parent.span_id in known else None
                if above == parent:
                    found = list(below(span.context.span_id))
                    yield [span.name, *found] if found else span.name

        return list(below(None))

    def metric(self, name: str, attribute: str = "") -> dict[Any, float]:
        """Return the values of a metric by one of its attributes; of a histogram, the number of measurements."""
        assert self.telemetry.flush()
        data = self._reader.get_metrics_data()
        points = [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        found: dict[Any, float] = {}
        for point in points:
            key = point.attributes.get(attribute, "")
            found[key] = found.get(key, 0) + getattr(point, "count", getattr(point, "value", 0))
        return found


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})
