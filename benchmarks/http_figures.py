"""What is measured over HTTP: the jobs, the rows of their table, and the goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Goal, Job, Row, Samples, Suite, at_most, row, value

LENGTHS = (5, 50, 500)
OURS = ("concertino_chat", "concertino_responses", "concertino_messages", "concertino_gemini")


def _name(turns: int) -> str:
    return f"HTTP loop of {turns}"


TIMEOUT = 20.0
"""Seconds that a system may take for a job."""


def _loop(turns: int, runs: int) -> Job:
    return Job(
        _name(turns),
        "http_loop",
        {"turns": turns, "at_most": runs, "seconds": 1.5},
        quick={"at_most": 1, "seconds": 1.0},
        tiny={"turns": 4, "at_most": 1, "seconds": 0.0},
        once=True,
        timeout=TIMEOUT,
    )


def _deltas(name: str, play: str, runs: int) -> Job:
    parameters = {"play": play, "deltas": 400, "at_most": runs}
    quick, tiny = {"at_most": 2}, {"deltas": 20, "at_most": 1}
    return Job(name, "http_deltas", parameters, quick, tiny, once=True, timeout=TIMEOUT)


def growth(samples: Samples) -> float | None:
    """What a turn at 1,000 messages costs, measured by a turn at 100."""
    long, short = value(samples, _name(500), "us"), value(samples, _name(50), "us")
    return long / short if long and short else None


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """How concertino stands to its goals, in each format."""
    found = []
    for name in OURS:
        ours, what = results.get(name, {}), name.removeprefix("concertino_")
        found.append(at_most(f"{what}: a turn at 100 messages, CPU µs", value(ours, _name(50), "us"), 1_200))
        found.append(at_most(f"{what}: a turn at 1,000 messages / at 100", growth(ours), 1.5))
        found.append(at_most(f"{what}: a delta in a burst, CPU µs", value(ours, "burst", "us"), 30))
    return found


SUITE = Suite(
    name="http",
    ours=("raw_socket", "sdk_lean", "sdk_typed", *OURS),
    peers=("openai_agents_http",),
    subject="concertino_chat",
    floors=("raw_socket", "sdk_lean", "sdk_typed"),
    jobs=(
        *(_loop(turns, runs) for turns, runs in zip(LENGTHS, (50, 8, 2), strict=True)),
        _deltas("burst", "burst", 30),
        _deltas("paced", "paced", 3),
    ),
    rows=(
        *(row(f"a turn at {2 * turns:,} messages, CPU µs", _name(turns), "us") for turns in LENGTHS),
        Row("growth, a turn at 1,000 messages / at 100", growth, _name(500)),
        row("burst of {deltas} deltas, CPU µs/delta", "burst", "us"),
        row("{deltas} deltas 1 ms apart, CPU µs/delta", "paced", "us"),
        row("first delta, ms", "paced", "first_ms"),
    ),
    goals=goals,
)
