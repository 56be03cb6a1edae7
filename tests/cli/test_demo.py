"""`python -m concertino.demo`: a research is killed and resumed, and its timeline and bill are shown."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the exit status of a killed process")
def test_a_killed_research_ends_with_report_timeline_and_bill(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "concertino.demo"], env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    killed, interrupted, report, timeline, bill = done.stdout.split("\n=== ")[1:]
    assert "exit status is -9" in killed
    assert "interrupted" in interrupted
    assert "ExceptionGroup" in report
    assert "## Sources" in report
    assert "completed" in timeline
    assert "supervisor/researcher-2" in bill
    assert " unknown\n" in bill
