"""The table has all faults of the matrix, and the documentation has the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .conftest import TABLE, Progress
from .table import FAULTS, NOT_MADE, rows

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def test_no_fault_is_missing() -> None:
    assert all(TABLE)
    assert {fault.number for fault in FAULTS} | NOT_MADE.keys() == set(range(1, 41))


def test_the_page_shows_the_table() -> None:
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert shown == rows()


def test_the_page_counts_the_faults_that_are_injected() -> None:
    first = PAGE.read_text().split("\n\n")[1]
    assert f"injects {len({fault.number for fault in FAULTS})} of the matrix's forty faults" in first


def test_the_progress_of_many_seeds_is_shown() -> None:
    shown: list[str] = []
    progress = Progress(shown.append, 2)

    def case(name: str, **failed: bool) -> None:
        for when in ("setup", "call", "teardown"):
            report: Any = SimpleNamespace(
                nodeid=f"tests/faults/test_sqlite.py::test_fault[{name}]", when=when, failed=failed.get(when, False)
            )
            progress.pytest_runtest_logreport(report)

    case("1-killed-7")
    case("1-killed-8", call=True)
    assert shown == []
    case("2-stopped-7")
    case("2-stopped-8")
    assert [line.strip() for line in shown] == [
        "seed 7: 2 cases, all invariants hold",
        "seed 8: 2 cases, 1 FAILED; again: make faults SEED=8 SEEDS=1",
    ]
