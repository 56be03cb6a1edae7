"""The table has all faults of the matrix, and the documentation has the table."""

from __future__ import annotations

from pathlib import Path

from .conftest import TABLE
from .table import FAULTS, NOT_MADE, rows

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def test_no_fault_is_missing() -> None:
    assert all(TABLE)
    assert {fault.number for fault in FAULTS} | NOT_MADE.keys() == set(range(1, 41))


def test_the_page_shows_the_table() -> None:
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert shown == rows()
