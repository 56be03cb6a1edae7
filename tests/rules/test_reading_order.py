"""docs/architecture.md gives a reading order, and no file is missing in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "concertino"
_ROUND = 0.08
"""The share by which a figure of the page may be off."""


def section(folder: str) -> str:
    """What the page says of *folder*: its heading with what follows."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    found = re.search(rf"^### `{folder}/`.*?(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section about {folder}/"
    return found[0]


def files(folder: str) -> list[Path]:
    return [path for path in (PACKAGE / folder).rglob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize("folder", ["orchestrator", "token_engine", "providers"])
def test_every_file_is_in_the_reading_order(folder: str) -> None:
    named = set(re.findall(r"`(\w+\.py)`", section(folder)))
    there = {path.name for path in files(folder)}
    wanted = {path.name for path in files(folder) if path.parent.name != "extractive"}  # its first files are enough
    assert wanted - named == set(), "not in the reading order"
    assert named - there == set(), "in the reading order, and gone"


@pytest.mark.parametrize("folder", ["orchestrator", "token_engine"])
def test_the_lines_are_about_as_many_as_it_says(folder: str) -> None:
    told = re.search(r"about ([\d,]+) lines", section(folder))
    assert told is not None
    lines = sum(path.read_text().count("\n") for path in files(folder))
    assert abs(lines / int(told[1].replace(",", "")) - 1) <= _ROUND, f"{folder}/ has {lines:,} lines"
