"""The cost of OpenTelemetry for a step with one tool: interleaved runs with and without the observer.

The time of the event loop is what a run waits for. The process's CPU also has the thread that ends spans; the exporter
takes them and does nothing, since its cost is not ours.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks import report
from benchmarks.figures import Goal
from concertino import AgentConfig, Chat, ToolOrchestrator, tool
from concertino.observability import OpenTelemetry
from concertino.testing import ScriptedModel, call

GOAL = 30.0
"""Microseconds of the event loop for each step."""


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@tool(effect="read")
async def ping(n: int) -> str:  # noqa: ARG001 - as a tool of a product
    """Answer at once."""
    return "pong"


class Pinger(AgentConfig[None]):
    name = "pinger"
    tools = (ping,)
    tool_call_limit = 1_000_000


def _telemetry() -> OpenTelemetry:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(_Nowhere(), max_queue_size=100_000))
    return OpenTelemetry(tracers, MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))


async def _run(steps: int, observers: list[Any]) -> float:
    """Return the CPU seconds that the event loop took for a run."""
    model = ScriptedModel(*[call("ping", n=1) for _ in range(steps)], "done")
    orchestrator = ToolOrchestrator(Chat("go", model=model), Pinger(), observers=observers)
    begun = time.thread_time()
    await orchestrator.run()
    return time.thread_time() - begun


def measure(*, steps: int, rounds: int) -> dict[str, float]:
    """Return the microseconds that the observer adds to a step, in the event loop and in all."""
    telemetry = _telemetry()
    variants: dict[str, list[Any]] = {"none": [], "ignored": [lambda _: None], "traced": [telemetry]}
    loop: dict[str, list[float]] = {name: [] for name in variants}
    process: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, observers in variants.items():
            for length, sign in ((steps, 1), (1, -1)):
                begun = time.process_time()
                took = asyncio.run(_run(length, observers))
                telemetry.flush(60)
                if sign > 0:
                    loop[name].append(took)
                    process[name].append(time.process_time() - begun)
                else:
                    loop[name][-1] -= took
                    process[name][-1] -= time.process_time() - begun

    def added(times: dict[str, list[float]], name: str) -> float:
        pairs = zip(times[name], times["none"], strict=True)
        return statistics.median(one - none for one, none in pairs) / (steps - 1) * 1e6

    return {
        "base_us": statistics.median(loop["none"]) / (steps - 1) * 1e6,
        "events_us": added(loop, "ignored"),
        "loop_us": added(loop, "traced"),
        "process_us": added(process, "traced"),
    }


def table(found: dict[str, float]) -> str:
    """Return the figures, one line each."""
    rows = (
        ("a step with one tool, CPU µs of the event loop", "base_us"),
        ("more with an observer that ignores events", "events_us"),
        ("more with OpenTelemetry", "loop_us"),
        ("more with OpenTelemetry, CPU of all threads", "process_us"),
    )
    return report.aligned([["figure", "µs"], *([label, f"{found[key]:.3g}"] for label, key in rows)])


def goals(found: dict[str, float]) -> list[Goal]:
    """Return the goals with their figures."""
    us = found["loop_us"]
    return [Goal("a traced step, CPU of the event loop, µs more", f"{GOAL:g}", f"{us:.3g}", met=us <= GOAL)]
