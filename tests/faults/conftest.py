"""The servers and the processes outside, for all cases, and the progress of many seeds."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest

from . import messages, processes, providers, servers
from .table import BOTH, FAULTS
from .world import Site

SEEDS = range(int(os.environ.get("SEED", "1")), int(os.environ.get("SEED", "1")) + int(os.environ.get("SEEDS", "1")))
TABLE = [messages, processes, providers, servers]
"""The modules that fill the table."""


@pytest.fixture(scope="session")
def sites() -> Iterator[Callable[[str], Site]]:
    """Return the site of a kind of store, which is made when it is asked for first."""
    made: dict[str, Site] = {}

    def site_of(store: str) -> Site:
        if store not in made:
            made[store] = Site(store)
            asyncio.run(made[store].open())
        return made[store]

    try:
        yield site_of
    finally:
        for each in made.values():
            each.close()


@pytest.fixture
def site(request: pytest.FixtureRequest, sites: Callable[[str], Site]) -> Site:
    """The site of a module, whose `STORE` is the kind of its store."""
    return sites(request.module.STORE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test each fault that makes sense on the store of its module, with each seed."""
    if {"fault", "seed"} <= set(metafunc.fixturenames):
        faults = [each for each in FAULTS if metafunc.module.STORE in each.stores]
        ordered = sorted(faults, key=lambda each: each.number)
        metafunc.parametrize("fault", ordered, ids=[f"{each.number}-{each.name}" for each in ordered])
        metafunc.parametrize("seed", SEEDS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Finish one seed after the other."""
    items.sort(key=lambda item: item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0)


class Progress:
    """Prints a line for each seed whose cases have all ended."""

    def __init__(self, show: Callable[[str], None], cases: int) -> None:
        self._show, self._cases = show, cases
        self._ended: Counter[str] = Counter()
        self._failed: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case."""
        _, _, case = report.nodeid.partition("test_fault[")
        seed = case.rpartition("-")[2].rstrip("]")
        if not case:
            return
        if report.failed:
            self._failed[seed].add(case)
        self._ended[seed] += report.when == "teardown"
        if report.when == "teardown" and self._ended[seed] == self._cases:
            failed = self._failed.pop(seed, set())
            again = f"{len(failed)} FAILED; again: make faults SEED={seed} SEEDS=1" if failed else "all invariants hold"
            self._show(f"\nseed {seed}: {self._cases} cases, {again}")


def pytest_configure(config: pytest.Config) -> None:
    """Show the progress if there are several seeds."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and len(SEEDS) > 1:  # a worker of pytest-xdist has no terminal
        cases = sum(store in fault.stores for fault in FAULTS for store in BOTH)
        config.pluginmanager.register(Progress(terminal.write_line, cases))
