"""The load benchmark runs, and loses no event."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_servers_of_ours_lose_no_event_under_load() -> None:
    command = [sys.executable, "-m", "benchmarks.server", "--self-check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "concertino-ag-ui: lost events" in done.stdout
