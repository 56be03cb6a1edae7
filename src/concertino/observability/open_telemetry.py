"""`OpenTelemetry`: an observer that makes spans and metrics of events.

The event loop only chooses ids and records times. A thread creates and ends the spans (`late_span`), with their
attributes and the measurements (`spans`), so that no run waits for a processor or an exporter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from time import time_ns
from typing import Any

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    TracerProvider,
    get_current_span,
    get_tracer,
)

from .. import events
from .._version import __version__
from ..messages import AssistantMessage
from . import names
from .late_span import SpanStarter, with_span
from .metrics import Attributes, Counts, Metrics
from .span_thread import SpanThread
from .spans import ChatSpan, RunSpan, SpanEnds, ToolEnd, ToolSpan, error_type, operation

_MOST_BEGUN = 1_000
_NO_CONTEXT = Context()
_runtime: Any = getattr(context, "_RUNTIME_CONTEXT", context)  # the module's functions only call it
attach, get_current = _runtime.attach, _runtime.get_current


class OpenTelemetry:
    """An observer that emits spans and metrics: `Runtime(..., observers=[OpenTelemetry()])`.

    By default, it uses the global providers of OpenTelemetry. *content* adds the texts of tasks, answers, arguments and
    results to the spans, as far as the data policy shows them to observers.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        self.tracer = get_tracer(names.SCOPE, __version__, tracer_provider, names.SCHEMA_URL)
        self.metrics = Metrics(meter_provider)
        self.background = SpanThread()
        self._starter = SpanStarter(self.tracer, self.background)
        self._ends = ends = SpanEnds(self.tracer, self.metrics, content=content)
        self._chat_end, self._tool_end = ends.end_chat, ends.end_tool
        """Bound once, like all that a span would otherwise keep until the thread has ended it."""
        self._runs: dict[str, RunSpan] = {}
        self._begun: OrderedDict[str, tuple[Span, int]] = OrderedDict()
        self._handlers: Mapping[type[Any], Any] = {
            events.StepStarted: self._step_started,
            events.TextDelta: self._piece,
            events.ReasoningDelta: self._piece,
            events.ToolCallDelta: self._piece,
            events.AttemptFailed: self._attempt_failed,
            events.UsageRecorded: self._usage_recorded,
            events.TurnCompleted: self._turn_completed,
            events.ToolStarted: self._tool_started,
            events.ToolDone: self._tool_ended,
            events.ToolFailed: self._tool_ended,
            events.CallWaiting: self._tool_ended,
            events.ContextEdited: self._context_edited,
            events.CacheMiss: self._cache_missed,
            events.Notice: self._notice,
            events.RunEnded: self._run_ended,
        }
        self.metrics.watch_dropped(lambda: self.background.dropped)

    def __call__(self, event: events.RunEvent) -> None:
        """Make a span or a measurement of *event*."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            run = self._runs.get(event.run_id)
            if run is not None:
                handler(run, event)
        elif type(event) is events.RunStarted:
            self._run_started(event)

    def watch(self, counts: Counts) -> None:
        """Report the counts of a runtime (`Runtime.counts`) as metrics."""
        self.metrics.watch(counts)

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until all spans have reached their exporters. Return False if this takes longer than *seconds*."""
        return self.background.flush(seconds)

    # -- traces across processes -----------------------------------------------------------------------------------

    def traceparent(self) -> str:
        """Return the trace of the code that is running; empty outside of traces."""
        return _traceparent(get_current_span())

    def begin(self, agent: str) -> str:
        """Begin the trace of a run of *agent* that starts outside of traces."""
        began = time_ns()
        labels = {names.OPERATION: names.INVOKE_AGENT, names.AGENT: agent}
        span = self.tracer.start_span(f"{names.INVOKE_AGENT} {agent}", attributes=labels, start_time=began)
        found = _traceparent(span)
        if found:
            self._begun[found] = span, began
            if len(self._begun) > _MOST_BEGUN:  # runs that were refused
                self._begun.popitem(last=False)
        return found

    # -- runs ------------------------------------------------------------------------------------------------------

    def _run_started(self, event: events.RunStarted) -> None:
        previous, name = get_current(), operation(event)
        span, began = self._begun.pop(event.traceparent, (None, 0))
        parent = previous if event.parent_call is not None else _continued(event.traceparent, previous)
        if span is None:
            began = time_ns()
            labels = {names.OPERATION: name, names.AGENT: event.agent}
            span = self._starter.start(f"{name} {event.agent}", parent, labels, began)
        elif event.workflow:
            span.update_name(f"{name} {event.agent}")
            span.set_attribute(names.OPERATION, name)
        run = self._runs[event.run_id] = RunSpan(span, self._starter.above(span), began, event, previous, parent)
        attach(run.context)

    def _run_ended(self, run: RunSpan, event: events.RunEnded) -> None:
        del self._runs[event.run_id]
        current = get_current()
        if current is run.context or (run.chat is not None and current is run.chat.context):
            attach(run.previous)
        self.background.put(self._ends.end_run, run, event.result, time_ns())

    # -- model calls -----------------------------------------------------------------------------------------------

    def _step_started(self, run: RunSpan, event: events.StepStarted) -> None:
        if run.chat is not None:  # its answer was rejected
            self._end_chat(run, run.chat, None)
        if event.model:
            model, began = _model(event.model), time_ns()
            name = f"{names.CHAT} {model[names.REQUEST_MODEL]}"
            span = self._starter.start(name, run.context, model, began, SpanKind.CLIENT, above=run.above)
            chat = run.chat = ChatSpan(span, model, began, run, event.step)
            attach(chat.context)

    def _piece(self, run: RunSpan, event: events.TextDelta | events.ReasoningDelta | events.ToolCallDelta) -> None:
        if (chat := run.chat) is not None and not chat.first:
            chat.first = time_ns()

    def _usage_recorded(self, run: RunSpan, event: events.UsageRecorded) -> None:
        run.seen.add(event.record.id)
        if event.turn and run.chat is not None:
            run.chat.record = event.record
        else:
            self.background.put(self._ends.side_call, run, event, _around(run), time_ns())

    def _turn_completed(self, run: RunSpan, event: events.TurnCompleted) -> None:
        if run.chat is not None and event.message.stop_reason != "broken":  # that one ends with its error
            self._end_chat(run, run.chat, event.message)

    def _end_chat(self, run: RunSpan, chat: ChatSpan, message: AssistantMessage | None) -> None:
        failed = "" if chat.record is not None else "_OTHER"
        self.background.put(self._chat_end, run, chat, message, time_ns(), failed)
        if get_current() is chat.context:
            attach(run.context)
        run.chat = chat.context = None

    def _attempt_failed(self, run: RunSpan, event: events.AttemptFailed) -> None:
        run.failed.add(event.attempt)
        if run.chat is not None:
            run.chat.first = 0
        kind = error_type(event.error, "_OTHER")
        found: Attributes = {names.ERROR: kind, names.NEXT_MODEL: event.next_model, names.DELAY: event.seconds}
        get_current_span().add_event(names.ATTEMPT_FAILED, found)
        self.background.put(self.metrics.failed_attempts, 1, _model(event.model) | {names.ERROR: kind})

    # -- tool calls ------------------------------------------------------------------------------------------------

    def _tool_started(self, run: RunSpan, event: events.ToolStarted) -> None:
        began, previous = time_ns(), _around(run)
        if event.call_id in run.tools:  # its sub-agent waited, and goes on
            self.background.put(self._tool_end, run, run.tools[event.call_id], None, began, "")
        labels = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: event.name}
        name = f"{names.EXECUTE_TOOL} {event.name}"
        above = run.above if previous is run.context else None
        span = self._starter.start(name, previous, labels, began, above=above)
        tool = run.tools[event.call_id] = ToolSpan(span, event, began, previous)
        attach(tool.context)

    def _tool_ended(self, run: RunSpan, event: ToolEnd) -> None:
        tool = run.tools.pop(event.call_id, None)
        if tool is None:
            return  # a hook has withheld the result
        if get_current() is tool.context:
            attach(tool.previous)
        tool.context = None
        failed = "tool_error" if type(event) is events.ToolFailed else ""
        self.background.put(self._tool_end, run, tool, event, time_ns(), failed)

    # -- other events ----------------------------------------------------------------------------------------------

    def _context_edited(self, run: RunSpan, event: events.ContextEdited) -> None:
        run.compacted = True
        found = {names.BEFORE: event.before, names.AFTER: event.after}
        run.span.add_event(names.CONTEXT_EDITED, found)

    def _cache_missed(self, run: RunSpan, event: events.CacheMiss) -> None:
        found: Attributes = {
            names.REASON: event.reason,
            names.EXPECTED: event.expected,
            names.CACHE_READ_TOKENS: event.cached,
        }
        run.span.add_event(names.CACHE_MISSED, found)
        self.background.put(self.metrics.cache_misses, 1, _model(event.model) | {names.REASON: event.reason})

    def _notice(self, run: RunSpan, event: events.Notice) -> None:
        run.span.add_event(names.NOTICE, {names.REASON: event.code})


def _around(run: RunSpan) -> Context:
    """Return the context for work of *run* that begins now: not that of its model call, which continues."""
    current = get_current()
    return run.context if run.chat is not None and current is run.chat.context else current


@lru_cache(256)
def _model(model: str) -> Attributes:
    """Return the attributes of the model with this id, which must not change."""
    provider, _, name = model.partition(":")
    provider = names.PROVIDERS.get(provider, provider)
    return {names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: name}


def _traceparent(span: Span) -> str:
    found = span.get_span_context()
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}" if found.is_valid else ""


def _continued(traceparent: str, current: Context) -> Context:
    """Return the context that *traceparent* names, which is *current* if the run was started in it."""
    if not traceparent or traceparent == _traceparent(get_current_span(current)):
        return current
    _, trace_id, span_id, flags = traceparent.split("-")
    parent = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return with_span(NonRecordingSpan(parent), _NO_CONTEXT)
