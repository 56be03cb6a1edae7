"""docs/architecture.md agrees with the code: its tables and the names in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from concertino import operations
from concertino.orchestrator import NextStep
from concertino.storage import EntryKind

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "concertino"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILE = re.compile(r"`([\w/]+\.(?:py|md)|(?:\w+/)+)(?::(\w+))?`")


def section(title: str) -> str:
    """Return the text below a heading."""
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_table_of_states_has_the_edges_of_the_transition_function() -> None:
    edges = [
        ((state, event), target)
        for state, row in re.findall(r"^\| `(\w+)` \| (.*) \|$", section("Operations"), re.MULTILINE)
        for events, target in re.findall(r"([^;]*) → `(\w+)`", row)
        for event in re.findall(r"`(\w+)`", events)
    ]
    assert sorted(edges) == sorted(operations._TRANSITIONS.items())


def test_every_kind_of_journal_entry_has_its_row() -> None:
    kinds = re.findall(r"^\| `(\w+)` \|", section("The journal"), re.MULTILINE)
    assert kinds == list(dict.fromkeys(kinds))
    assert set(kinds) == set(get_args(EntryKind))


def test_the_table_of_a_turn_names_hooks_and_journal_entries_that_exist() -> None:
    rows = [row.split("|")[1:-1] for row in section("A run").splitlines() if row.startswith("| ")][2:]
    assert len(rows) == 5
    hooks = {hook for _, decisions, _, _ in rows for hook in re.findall(r"`(\w+)`", decisions)}
    entries = {entry for *_, written in rows for entry in re.findall(r"`(\w+_\w+)`", written)}
    assert len(hooks) == 11
    assert hooks <= set(_methods("orchestrator/agent.py", "AgentConfig"))
    assert entries == {"model_requested", "model_answered", "calls_changed"} <= set(get_args(EntryKind))
    assert all(f"`{outcome.__name__}`" in PAGE for outcome in get_args(NextStep))


@pytest.mark.parametrize("named", sorted(set(FILE.findall(PAGE))), ids=":".join)
def test_the_files_and_names_of_the_page_exist(named: tuple[str, str]) -> None:
    path, name = named
    base = ROOT if path.startswith(("tests/", "src/")) else PACKAGE
    assert (base / path).exists(), f"docs/architecture.md names {path}"
    if name:
        tree = ast.parse((base / path).read_text())
        assert name in {getattr(node, "name", "") for node in tree.body}, f"{path} does not define {name}"


def test_the_figures_of_the_trace_are_the_ceilings_of_the_guards() -> None:
    ceilings = (ROOT / "tests" / "guards" / "ceilings.json").read_text()
    figures = dict(re.findall(r'"turn: ([\w ]+)": (\d+)', ceilings))
    files, calls = figures["files entered"], figures["calls between files"]
    assert f"enters {files} files and makes {calls} calls between files" in " ".join(PAGE.split())


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= 250


def _methods(path: str, name: str) -> list[str]:
    tree = ast.parse((PACKAGE / path).read_text())
    kind = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return [node.name for node in kind.body if isinstance(node, ast.FunctionDef)]
