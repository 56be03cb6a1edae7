"""A short soak; `make soak` runs the long one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.airline.conftest import Published

from .__main__ import summary, too_late
from .soak import soak


@pytest.mark.slow
async def test_nothing_is_lost_or_done_twice(data: Path) -> None:
    folder, seed = data / "tau2/airline", random.randrange(1_000_000)
    record = await soak(Published(folder), folder, seconds=30, seed=seed, show=print)
    print(f"seed {seed}: {summary(record)}")
    assert record.problems == []
    assert too_late(record, 60.0) == []
    assert {"kills", "freezes", "restarts of PostgreSQL", "restarts of NATS"} <= record.faults.keys()
    assert record.outside.seen["once"]
