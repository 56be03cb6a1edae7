"""The servers and the processes outside, for all cases of a module."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from . import messages, processes, providers, servers
from .table import FAULTS
from .world import Site

SEEDS = range(int(os.environ.get("SEED", "1")), int(os.environ.get("SEED", "1")) + int(os.environ.get("SEEDS", "1")))
TABLE = [messages, processes, providers, servers]
"""The modules that fill the table."""


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The site of a module, whose `STORE` is the kind of its store."""
    made = Site(request.module.STORE)
    try:
        asyncio.run(made.open())
        yield made
    finally:
        made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test each fault that makes sense on the store of its module, with each seed."""
    if {"fault", "seed"} <= set(metafunc.fixturenames):
        faults = [each for each in FAULTS if metafunc.module.STORE in each.stores]
        ordered = sorted(faults, key=lambda each: each.number)
        metafunc.parametrize("fault", ordered, ids=[f"{each.number}-{each.name}" for each in ordered])
        metafunc.parametrize("seed", SEEDS)
