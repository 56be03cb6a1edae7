"""Traces of long conversations: sender, size and time of each message, without texts."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared" / "bench" / "token_engine" / "trajectories.py"


@dataclass(frozen=True, slots=True)
class Trace:
    """A conversation.

    `messages` are pairs of sender (`u`ser, `a`ssistant or `t`ool) and tokens; `requests` are pairs of the number of
    messages before the request and the seconds since the last one.
    """

    name: str
    system: int
    """Tokens of system prompt and tools."""
    limit: int
    """Tokens that a request may have."""
    messages: tuple[tuple[str, int], ...]
    requests: tuple[tuple[int, float], ...]


def from_file(path: Path) -> list[Trace]:
    """Read traces from a JSON file: a list of objects with the fields of `Trace`."""
    return [
        Trace(
            found["name"], found["system"], found["limit"],
            tuple((who, tokens) for who, tokens in found["messages"]),
            tuple((count, gap) for count, gap in found["requests"]),
        )
        for found in json.loads(path.read_text())
    ]  # fmt: skip


def shared() -> list[Trace]:
    """Return the three traces next to the repository, or none if they are absent."""
    if not SHARED.exists():
        return []
    spec = importlib.util.spec_from_file_location("trajectories", SHARED)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["trajectories"] = module
    spec.loader.exec_module(module)
    return [
        Trace(
            found.name,
            found.system,
            found.budget,
            tuple((message.kind, message.tok) for message in found.msgs),
            tuple(found.turns),
        )
        for found in (build() for build in module.ALL)
    ]


def drawn(seed: int) -> Trace:
    """Return a random conversation: a tool loop with occasional messages of the user."""
    chance = random.Random(seed)
    messages: list[tuple[str, int]] = [("u", 200)]
    requests: list[tuple[int, float]] = []
    spread, middle = chance.uniform(0.4, 1.6), chance.choice((150, 400, 1_000, 2_500))
    for _ in range(chance.randrange(60, 240)):
        slow = chance.random() < 0.04
        requests.append((len(messages), chance.uniform(400, 4_000) if slow else chance.lognormvariate(2.7, 0.8)))
        messages.append(("a", max(10, int(chance.lognormvariate(4.5, 0.7)))))
        if chance.random() < 0.06:
            messages.append(("u", max(10, int(chance.lognormvariate(4.0, 0.8)))))
        else:
            messages.append(("t", min(20_000, max(10, int(chance.lognormvariate(math.log(middle), spread))))))
    return Trace(f"drawn-{seed}", chance.choice((2_000, 6_000)), 200_000, tuple(messages), tuple(requests))
