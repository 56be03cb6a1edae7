"""The benchmarks run, and check the work that they measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_floor_and_concertino_do_the_same_work() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--self-check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
