"""All faults of the table on SQLite. `make faults` runs more seeds."""

from __future__ import annotations

import pytest

from .table import Fault
from .world import Site

STORE = "sqlite"


@pytest.mark.slow
async def test_fault(site: Site, fault: Fault, seed: int) -> None:
    await site.run(fault, seed)
