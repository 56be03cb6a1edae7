"""The benchmarks run, and check the work that they measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import SUITES
from benchmarks.scale import Load, Partition, Prices, Turn, tables

ROOT = Path(__file__).resolve().parents[2]


NAMES = [pytest.param(each.name, marks=() if each.name == "step" else pytest.mark.slow) for each in SUITES]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("suite", NAMES)
def test_every_system_of_a_suite_does_the_same_work(suite: str) -> None:
    command = [sys.executable, "-m", "benchmarks", "--self-check", "--suite", suite]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_about_scale_shows_what_the_model_prints() -> None:
    page = (ROOT / "docs/scale.md").read_text()
    for table in tables(Load(), Turn(), Partition(), Prices()).split("\n\n"):
        assert table.strip() in page
