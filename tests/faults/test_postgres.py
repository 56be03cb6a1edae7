"""All faults of the table on PostgreSQL and NATS. `make faults` runs more seeds."""

from __future__ import annotations

import pytest

from .table import Fault
from .world import Site

STORE = "postgres"


@pytest.mark.postgres
async def test_fault(site: Site, fault: Fault, seed: int) -> None:
    await site.run(fault, seed)
