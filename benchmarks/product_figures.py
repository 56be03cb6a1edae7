"""A chat product: the jobs, the rows of their table, and the goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Goal, Job, Row, Samples, Suite, at_most, ratio, row, scale, value

SHAPES = {100: (5, 9), 1_000: (10, 49), 10_000: (50, 99)}
"""Turns, and steps of each with one call, by the number of messages."""


def _conversation(messages: int) -> Job:
    turns, steps = SHAPES[messages]
    parameters = {"turns": turns, "steps": steps, "at_most": 20, "seconds": 2.0}
    tiny = {"turns": 2, "steps": 1, "at_most": 1}
    return Job(_name(messages), "conversation", parameters, {"at_most": 10, "seconds": 1.0}, tiny)


def _name(messages: int) -> str:
    return f"conversation of {messages}"


def _turn(messages: int, what: str, key: str, unit: str) -> Row:
    return row(f"{what} {messages:,} messages, {unit}", _name(messages), key)


def _parts(name: str, *, guarded: bool) -> Job:
    parameters = {"steps": 20, "guarded": guarded, "at_most": 300, "seconds": 1.0}
    return Job(name, "parts", parameters, {"seconds": 0.5}, {"steps": 2, "at_most": 1})


BURST = Job(
    "burst in the log", "burst", {"deltas": 2_000, "at_most": 20, "seconds": 2.0}, {"seconds": 0.5}, {"deltas": 20}
)
FOLLOWED = Job("followed elsewhere", "followed", {"deltas": 300, "gap": 0.01}, tiny={"deltas": 20}, once=True)
MEDIA = Job("media", "media", {"kilobytes": 1_000, "at_most": 20, "seconds": 2.0}, tiny={"kilobytes": 10, "at_most": 1})
PLAIN, GUARDED = _parts("plain steps", guarded=False), _parts("guarded steps", guarded=True)
guards = ratio(GUARDED.name, "us", PLAIN.name)
LARGEST = _name(max(SHAPES))


def goals(results: Mapping[str, Samples]) -> list[Goal]:
    """Return how concertino compares with its goals for a chat product."""
    ours, slower, text = results.get("concertino_product", {}), scale(results), "Conversation at 10,000 messages"
    return [
        at_most(f"{text}, same process, CPU ms of the loop", value(ours, LARGEST, "loop_ms"), 5 * slower),
        at_most(f"{text}, new process, CPU ms of the loop", value(ours, LARGEST, "elsewhere_loop_ms"), 50 * slower),
        at_most("a piece of text seen by another process, ms late (95 %)", value(ours, FOLLOWED.name, "late_ms"), 100),
    ]


SUITE = Suite(
    name="product",
    title="A chat product",
    ours=("floor_product", "concertino_product"),
    peers=(),
    subject="concertino_product",
    floors=("floor_product",),
    jobs=(*map(_conversation, SHAPES), BURST, FOLLOWED, MEDIA, PLAIN, GUARDED),
    rows=(
        *(_turn(n, "turn of a conversation of", "ms", "CPU ms") for n in SHAPES),
        *(_turn(n, "turn of a conversation of", "loop_ms", "CPU ms of the loop") for n in SHAPES),
        *(_turn(n, "the same in a new process,", "elsewhere_ms", "CPU ms") for n in SHAPES),
        *(_turn(n, "the same in a new process,", "elsewhere_loop_ms", "CPU ms of the loop") for n in SHAPES),
        row("burst of {deltas:,} deltas in the log, CPU µs/delta", BURST.name, "us"),
        row("a delta seen by another process, ms late (median)", FOLLOWED.name, "median_ms"),
        row("a delta seen by another process, ms late (95 %)", FOLLOWED.name, "late_ms"),
        row("message with an image of {kilobytes:,} kB, CPU ms", MEDIA.name, "ms"),
        row("run of {steps} steps, CPU µs/step", PLAIN.name, "us"),
        row("run of {steps} steps with guardrails, CPU µs/step", GUARDED.name, "us"),
        Row("a step with guardrails / without", guards, GUARDED.name),
    ),
    goals=goals,
)
