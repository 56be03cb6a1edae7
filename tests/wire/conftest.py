"""The sources of exchanges: samples in the tree, and recorded traffic next to the repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from .recordings import TRAFFIC
from .samples import SAMPLES


@dataclass(frozen=True, slots=True)
class Source:
    """A folder of exchanges."""

    root: Path
    recorded: bool

    def at_least(self, count: int) -> int:
        """Return the least number of exchanges that a test over *count* or more recordings must find here."""
        return count if self.recorded else 1


@pytest.fixture(params=["samples", "recordings"])
def source(request: pytest.FixtureRequest) -> Source:
    """A source of exchanges. Without the recordings, their half of a test is skipped; `.ci/run` fails."""
    if request.param == "samples":
        return Source(SAMPLES, recorded=False)
    if not TRAFFIC.is_dir():
        if "REQUIRE_DATA" in os.environ:
            pytest.fail(f"the recorded traffic is missing: {TRAFFIC}")
        pytest.skip("the recorded traffic is not next to this clone (../shared/data/provider-traffic)")
    return Source(TRAFFIC, recorded=True)
