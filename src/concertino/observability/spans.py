"""Spans in progress, and how they end: with attributes and measurements, in a thread."""

from __future__ import annotations

import re

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer

from .. import events
from ..messages import AssistantMessage
from ..usage import UsageRecord
from . import names, span_content
from .late_span import real, with_span
from .metrics import Attributes, Metrics

ToolEnd = events.ToolDone | events.ToolFailed | events.CallWaiting
_ENDED_WELL = ("completed", "limited", "suspended")


class ToolSpan:
    """A tool call in progress."""

    __slots__ = ("arguments", "began", "call_id", "context", "name", "previous", "span")

    def __init__(self, span: Span, event: events.ToolStarted, began: int, previous: Context) -> None:
        self.span, self.began, self.previous = span, began, previous
        self.name, self.call_id, self.arguments = event.name, event.call_id, event.arguments
        self.context: Context | None = with_span(span, previous)
        """None when the call has ended."""


class ChatSpan:
    """A model call of a turn in progress, with its retries."""

    __slots__ = ("began", "compacted", "context", "first", "model", "record", "span", "step")

    def __init__(self, span: Span, model: Attributes, began: int, run: RunSpan, step: int) -> None:
        self.span, self.model, self.began, self.step = span, model, began, step
        self.context: Context | None = with_span(span, run.context)
        """None when the call has ended."""
        self.first = 0
        """When the first piece of the answer came."""
        self.record: UsageRecord | None = None
        self.compacted = run.compacted


class RunSpan:
    """A run in progress."""

    __slots__ = (
        "above", "began", "chat", "compacted", "context", "failed",
        "labels", "previous", "seen", "span", "started", "tools",
    )  # fmt: skip

    def __init__(
        self,
        span: Span,
        above: SpanContext | None,
        began: int,
        started: events.RunStarted,
        previous: Context,
        parent: Context,
    ) -> None:
        self.span, self.began, self.started, self.previous = span, began, started, previous
        self.above = above
        """See `SpanStarter.above`, for the spans of its calls."""
        self.context = with_span(span, parent)
        self.labels: Attributes = {names.OPERATION: operation(started), names.AGENT: started.agent}
        self.chat: ChatSpan | None = None
        self.tools: dict[str, ToolSpan] = {}
        """By the id of the call."""
        self.seen: set[str] = set()
        """The ids of the usage records that are counted."""
        self.failed: set[str] = set()
        """The ids of the attempts that failed in this process."""
        self.compacted = False

    def ids(self) -> Attributes:
        """Return the attributes that name the run."""
        found: Attributes = {names.RUN: self.started.run_id, names.AGENT: self.started.agent}
        if self.started.conversation_id:
            found[names.CONVERSATION] = self.started.conversation_id
        return found


class SpanEnds:
    """Ends spans and records measurements. *content* adds texts."""

    def __init__(self, tracer: Tracer, metrics: Metrics, *, content: bool) -> None:
        self._tracer, self._metrics, self._content = tracer, metrics, content

    def end_run(self, run: RunSpan, result: events.RunResult, ended: int) -> None:
        """End the span of a run, and what was still open below it."""
        failed = "" if result.status in _ENDED_WELL else error_type(result.error, result.status)
        if run.chat is not None:
            self.end_chat(run, run.chat, None, ended, failed)
        for tool in run.tools.values():
            self.end_tool(run, tool, None, ended, "" if result.status == "suspended" else "cancelled")
        for record in result.usage:
            # A resumed run also has the records of earlier processes, which have counted theirs.
            counted = record.run_id != result.run_id or record.id in run.seen
            if not counted and (record.id in run.failed or not run.started.resumed):
                self._metrics.usage(record, labels_of(record))
        self._metrics.agent((ended - run.began) / 1e9, run.labels | _error(failed))
        if (span := real(run.span)).is_recording():
            found = run.ids() | {
                names.AGENT_PATH: result.agent_path,
                names.RESUMED: run.started.resumed,
                names.STATUS: result.status,
                names.STEPS: result.steps,
            }  # the model calls below have the tokens: displays that add them up would count them twice
            costs = [record.cost for record in result.usage if record.cost is not None]
            if len(costs) == len(result.usage):
                found[names.COST] = float(sum(costs))
            if self._content:
                found[names.INPUT_MESSAGES] = span_content.input_messages(run.started.task)
                found[names.OUTPUT_MESSAGES] = span_content.output_text(result.text)
            span.set_attributes(found)
        _end(span, ended, failed)

    def end_chat(self, run: RunSpan, chat: ChatSpan, message: AssistantMessage | None, ended: int, failed: str) -> None:
        """End the span of a model call. Without a *message*, there is no answer that the run continues with."""
        record, labels = chat.record, chat.model
        if record is not None:
            labels = labels | {names.RESPONSE_MODEL: record.model}
            self._metrics.usage(record, labels)
        labels = labels | _error(failed)
        self._metrics.inference((ended - chat.began) / 1e9, labels)
        if chat.first:
            self._metrics.first_chunk((chat.first - chat.began) / 1e9, labels)
        if (span := real(chat.span)).is_recording():
            found = run.ids() | {names.STREAM: True, names.STEP: chat.step}
            if chat.first:
                found[names.FIRST_CHUNK] = (chat.first - chat.began) / 1e9
            if record is not None:
                found |= _usage(record)
            if message is not None:
                reason = message.stop_reason
                found[names.FINISH_REASONS] = [names.FINISHED.get(reason, reason)]
                if self._content:
                    found[names.OUTPUT_MESSAGES] = span_content.output_messages(message)
            if chat.compacted:
                found[names.COMPACTED] = True
            span.set_attributes(found)
        _end(span, ended, failed)

    def side_call(self, run: RunSpan, event: events.UsageRecorded, parent: Context, ended: int) -> None:
        """Record a question of a hook or a tool, or a summary, which is known when it is answered."""
        record = event.record
        labels = labels_of(record)
        self._metrics.usage(record, labels)
        if not event.seconds:
            return  # a tool has booked it: its own span has the time
        self._metrics.inference(event.seconds, labels)
        began = ended - int(event.seconds * 1e9)
        span = self._tracer.start_span(
            f"{names.CHAT} {record.model}", parent, SpanKind.CLIENT, labels, start_time=began
        )
        if span.is_recording():
            span.set_attributes(run.ids() | _usage(record))
        _end(span, ended)

    def end_tool(self, run: RunSpan, tool: ToolSpan, event: ToolEnd | None, ended: int, failed: str) -> None:
        """End the span of a tool call. Without an *event*, it waits for its sub-agent, or was interrupted."""
        labels = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: tool.name}
        self._metrics.tool((ended - tool.began) / 1e9, labels | _error(failed))
        if (span := real(tool.span)).is_recording():
            found = run.ids() | {names.TOOL_CALL: tool.call_id, names.TOOL_TYPE: "function"}
            match event:
                case events.CallWaiting():
                    found[names.WAIT] = event.kind
                case None if not failed:
                    found[names.WAIT] = "sub_agent"
                case events.ToolDone() if self._content:
                    found[names.TOOL_RESULT] = event.content
                case events.ToolFailed() if self._content:
                    found[names.TOOL_RESULT] = event.error
            if self._content:
                found[names.TOOL_ARGUMENTS] = tool.arguments
            span.set_attributes(found)
        _end(span, ended, failed)


def operation(event: events.RunStarted) -> str:
    """Return the name of the operation that a run is."""
    return names.INVOKE_WORKFLOW if event.workflow else names.INVOKE_AGENT


def labels_of(record: UsageRecord) -> Attributes:
    """Return the attributes of a model call that is known by its usage only."""
    provider = names.PROVIDERS.get(record.provider, record.provider)
    model = {names.REQUEST_MODEL: record.model, names.RESPONSE_MODEL: record.model}
    return {names.OPERATION: names.CHAT, names.PROVIDER: provider, **model}


def error_type(error: str | None, other: str) -> str:
    """Return the class of errors that *error* begins with; *other* for another text, such as a hidden one."""
    found = re.match(r"[A-Za-z_]\w*(Error|Exception|Interrupt)(?=:|$)", error or "")
    return found.group() if found else other


def _error(failed: str) -> Attributes:
    return {names.ERROR: failed} if failed else {}


def _usage(record: UsageRecord) -> Attributes:
    tokens, receipt = record.tokens, record.receipt
    found: Attributes = {
        names.RESPONSE_MODEL: record.model,
        names.INPUT_TOKENS: tokens.prompt,
        names.OUTPUT_TOKENS: tokens.completion,
        names.CACHE_READ_TOKENS: tokens.cached,
        names.CACHE_WRITE_TOKENS: tokens.cache_write,
        names.REASONING_TOKENS: tokens.reasoning,
        names.USAGE_SOURCE: record.source,
    }
    if tokens.prompt:
        found[names.CACHE_SHARE] = round(tokens.cached / tokens.prompt, 4)
    if record.cost is not None:
        found[names.COST] = float(record.cost)
    if receipt is not None and receipt.response_id:
        found[names.RESPONSE_ID] = receipt.response_id
    return found


def _end(span: Span, ended: int, failed: str = "") -> None:
    if failed:
        span.set_attribute(names.ERROR, failed)
        span.set_status(Status(StatusCode.ERROR))
    span.end(ended)
