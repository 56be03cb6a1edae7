"""The instruments of all metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from .._version import __version__
from ..usage import Tokens, UsageRecord
from . import names

Attributes = dict[str, Any]


class Counts(Protocol):
    """The counts of a runtime."""

    @property
    def live_runs(self) -> int:
        """Runs in progress in this process."""

    parked_runs: int
    """Runs that were left to another process."""
    voided_events: int
    """Events that a retry or a crash undid."""
    lost_events: int
    """Events that could not be stored."""
    late_answers: int
    """Answers to waiting calls that changed nothing."""
    lost_messages: int
    """Messages about runs that could not be sent."""


class Metrics:
    """Records measurements of runs."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = get_meter(names.SCOPE, __version__, provider, names.SCHEMA_URL)
        self._meter = meter

        def seconds(name: str, text: str, bounds: list[float] = names.INFERENCE_BUCKETS) -> Any:
            return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=bounds).record

        def count(name: str, unit: str, text: str) -> Any:
            return meter.create_counter(name, unit, text).add

        self.inference = seconds(names.INFERENCE_SECONDS, "Duration of a model call with its retries")
        self.first_chunk = seconds(names.FIRST_CHUNK_SECONDS, "Time to the first piece of a model's answer")
        self.agent = seconds(names.AGENT_SECONDS, "Duration of a run of an agent or a workflow")
        self.tool = seconds(names.TOOL_SECONDS, "Duration of a tool call")
        self.request = seconds(names.REQUEST_SECONDS, "Duration of a request", names.REQUEST_BUCKETS)
        self.failed_attempts = count(names.FAILED_ATTEMPTS, "{attempt}", "Attempts at a model that failed")
        self.cache_misses = count(names.CACHE_MISSES, "{miss}", "Answers with fewer cached tokens than expected")
        self.active_requests = meter.create_up_down_counter(
            names.ACTIVE_REQUESTS, "{request}", "Requests in progress"
        ).add
        self.active_streams = meter.create_up_down_counter(names.ACTIVE_STREAMS, "{stream}", "Open event streams").add
        self._tokens: list[tuple[Any, Callable[[Tokens], int]]] = [
            (count(name, "{token}", text), read)
            for name, text, read in (
                (names.USED_INPUT, "Input tokens, with cached ones", lambda tokens: tokens.prompt),
                (names.USED_OUTPUT, "Output tokens, with reasoning", lambda tokens: tokens.completion),
                (names.USED_CACHE_READ, "Input tokens read from the cache", lambda tokens: tokens.cached),
                (names.USED_CACHE_WRITE, "Input tokens written to the cache", lambda tokens: tokens.cache_write),
                (names.USED_REASONING, "Output tokens of reasoning", lambda tokens: tokens.reasoning),
            )
        ]
        self._money = count(names.USED_MONEY, "USD", "Cost of model calls")
        self._unpriced = count(names.UNPRICED, "{attempt}", "Attempts whose cost is unknown")

    def usage(self, record: UsageRecord, labels: Attributes) -> None:
        """Add the tokens and the cost of an attempt. Unknown usage counts as zero tokens, as the conventions ask."""
        tokens = record.tokens if record.source != "unknown" else Tokens()
        by_modality = labels | {names.MODALITY: "unknown"}
        for position, (add, read) in enumerate(self._tokens):
            if (number := read(tokens)) or position < 2:
                add(number, by_modality)
        if record.cost is None:
            self._unpriced(1, labels)
        elif record.cost:
            self._money(float(record.cost), labels)

    def watch(self, counts: Counts) -> None:
        """Report what a runtime counts, whenever metrics are collected."""
        meter = self._meter
        read = _reader
        meter.create_observable_up_down_counter(
            names.LIVE_RUNS, [read(lambda: counts.live_runs)], "{run}", "Runs in progress in this process"
        )
        for name, unit, text, value in (
            (names.PARKED_RUNS, "{run}", "Runs left to another process", lambda: counts.parked_runs),
            (names.VOIDED_EVENTS, "{event}", "Events that a retry or a crash undid", lambda: counts.voided_events),
            (names.LOST_EVENTS, "{event}", "Events that could not be stored", lambda: counts.lost_events),
            (names.LATE_ANSWERS, "{answer}", "Answers that changed nothing", lambda: counts.late_answers),
            (names.LOST_MESSAGES, "{message}", "Messages about runs that were not sent", lambda: counts.lost_messages),
        ):
            meter.create_observable_counter(name, [read(value)], unit, text)

    def watch_dropped(self, dropped: Callable[[], int]) -> None:
        """Report how many spans and measurements were dropped."""
        text = "Spans and measurements dropped because too many waited for an exporter"
        self._meter.create_observable_counter(names.DROPPED, [_reader(dropped)], "{item}", text)


def _reader(value: Callable[[], int]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(value())]
