"""No count of calls, loop callbacks, commits, bytes or modules exceeds its stored ceiling."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

STORED = json.loads(Path(__file__).with_name("ceilings.json").read_text())
CEILINGS: dict[str, int] = STORED["ceilings"]

pytestmark = pytest.mark.skipif(
    not platform.python_version().startswith(STORED["python"] + ".") or platform.python_implementation() != "CPython",
    reason=f"the ceilings are those of CPython {STORED['python']}: other versions call other functions",
)


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    """Every count, taken in a process without pytest's own hooks and with a fixed order of sets."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.guards", "--json"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", CEILINGS)
def test_a_count_does_not_exceed_its_ceiling(counts: dict[str, int], name: str) -> None:
    assert counts[name] <= CEILINGS[name]


def test_every_count_has_a_ceiling(counts: dict[str, int]) -> None:
    assert counts.keys() == CEILINGS.keys()
