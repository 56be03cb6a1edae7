"""What is measured of fitting the context: the jobs, the rows of their table, and the goals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.figures import Goal, Job, Row, Samples, Suite, at_most, row, value

LENGTHS = (50, 500, 5_000, 10_000)
BUDGET = 20_000
"""Tokens that a request may have, as each system counts them."""
PLENTY = 10_000_000
"""Tokens that are room for all messages."""
TIMEOUT = 30.0
"""Seconds that a system may take for a job."""


def _first(messages: int) -> str:
    return f"first at {messages:,} messages"


def _next(messages: int) -> str:
    return f"next at {messages:,} messages"


def _whole(messages: int) -> str:
    return f"next at {messages:,} messages with room for all"


def _job(name: str, workload: str, messages: int, **parameters: Any) -> Job:
    tiny = {"messages": min(messages, 200), "at_most": 1}
    parameters = {"messages": messages, "budget": BUDGET, "at_most": 20, "seconds": 1.5, **parameters}
    return Job(name, workload, parameters, quick={"seconds": 0.3}, tiny=tiny, once=True, timeout=TIMEOUT)


def orphans(samples: Samples) -> float | None:
    """The most results that were sent without their call, at any length."""
    return _most(samples, "orphans")


def _most(samples: Samples, key: str) -> float | None:
    found = [value(samples, name(messages), key) for name in (_first, _next) for messages in LENGTHS]
    return max((each for each in found if each is not None), default=None)


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """How concertino stands to its goals."""
    ours = results.get("concertino_trim", {})
    return [
        at_most("tokens sent at any length", _most(ours, "tokens"), BUDGET),
        at_most("results sent without their call", orphans(ours), 0),
    ]


SUITE = Suite(
    name="trim",
    title="Fitting the context",
    ours=("concertino_trim",),
    peers=("langchain_trim", "langchain_clear", "agent_framework_trim", "pydantic_ai_trim"),
    subject="concertino_trim",
    floors=(),
    jobs=(
        *(_job(_next(each), "trim_next", each, all_fit=False) for each in LENGTHS),
        *(_job(_whole(each), "trim_next", each, all_fit=True, budget=PLENTY) for each in LENGTHS),
        *(_job(_first(each), "trim_first", each) for each in LENGTHS),
    ),
    rows=(
        *(row("{messages:,} messages, next request, CPU µs", _next(each), "us") for each in LENGTHS),
        *(row("{messages:,} messages, next, room for all, CPU µs", _whole(each), "us") for each in LENGTHS),
        *(row("{messages:,} messages, first request, CPU µs", _first(each), "us") for each in LENGTHS),
        *(row("{messages:,} messages, next request: messages", _next(each), "sent") for each in LENGTHS),
        *(row("{messages:,} messages, next request: tokens of {budget:,}", _next(each), "tokens") for each in LENGTHS),
        Row("orphaned results after trimming", orphans, _next(LENGTHS[0])),
    ),
    goals=goals,
)
