"""Runs over HTTP: the jobs, the rows of their table, and the goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Goal, Job, Row, Samples, Suite, at_most, ratio, row, scale, value

LENGTHS = (5, 50, 500)
OURS = ("concertino_chat", "concertino_responses", "concertino_messages", "concertino_gemini")


def _name(turns: int) -> str:
    return f"HTTP loop of {turns}"


TIMEOUT = 40.0
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


growth = ratio(_name(500), "us", _name(50))


def _to_lean(results: Mapping[str, Samples], system: str, job: str) -> float | None:
    """Return a figure relative to the SDK as a bare transport."""
    ours, lean = value(results.get(system, {}), job, "us"), value(results.get("sdk_lean", {}), job, "us")
    return ours / lean if ours and lean else None


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """Return how concertino compares with its goals, in each format."""
    slower, found = scale(results), []
    for name in OURS:
        ours, format_name = results.get(name, {}), name.removeprefix("concertino_")
        found.append(at_most(f"{format_name}: a turn at 1,000 messages / at 100", growth(ours), 1.5))
        text = f"{format_name}: a delta in a write of its own, CPU µs"
        found.append(at_most(text, value(ours, "written", "us"), 30 * slower))
    found += [
        at_most("chat: a delta in a write of its own / bare SSE reader", _to_lean(results, OURS[0], "written"), 1.7),
        at_most("chat: a turn at 100 messages / bare transport", _to_lean(results, OURS[0], _name(50)), 1.25),
    ]
    return found


SUITE = Suite(
    name="http",
    title="Over HTTP",
    ours=("raw_socket", "sdk_lean", "sdk_typed", *OURS),
    peers=("openai_agents_http",),
    subject="concertino_chat",
    floors=("raw_socket", "sdk_lean", "sdk_typed"),
    jobs=(
        *(_loop(turns, runs) for turns, runs in zip(LENGTHS, (50, 8, 2), strict=True)),
        _deltas("burst", "burst", 30),
        _deltas("written", "written", 10),
        _deltas("paced", "paced", 3),
    ),
    rows=(
        *(row(f"a turn at {2 * turns:,} messages, CPU µs", _name(turns), "us") for turns in LENGTHS),
        Row("growth, a turn at 1,000 messages / at 100", growth, _name(500)),
        row("burst of {deltas} deltas, CPU µs/delta", "burst", "us"),
        row("{deltas} deltas in a write each, CPU µs/delta", "written", "us"),
        row("{deltas} deltas 1 ms apart, CPU µs/delta", "paced", "us"),
        row("first delta, ms", "paced", "first_ms"),
    ),
    goals=goals,
)
