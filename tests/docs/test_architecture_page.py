"""docs/architecture.md agrees with the code: its diagrams, its tables and the names in it."""

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
EDGE = re.compile(r"^ *(\w+) --> (\w+): (.*)$", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.(?:py|md)|(?:\w+/)+)(?::(\w+))?`")


def diagram(kind: str) -> str:
    """Return the source of the diagram of this kind."""
    found = re.findall(rf"^```mermaid\n{kind}\b(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def section(title: str) -> str:
    """Return the text below a heading."""
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_state_diagram_has_the_edges_of_the_transition_function() -> None:
    edges = [
        ((state, event.strip()), target)
        for state, target, events in EDGE.findall(diagram("stateDiagram-v2"))
        for event in events.split(",")
    ]
    assert sorted(edges) == sorted(operations._TRANSITIONS.items())


def test_every_kind_of_journal_entry_has_its_row() -> None:
    kinds = re.findall(r"^\| `(\w+)` \|", section("The journal"), re.MULTILINE)
    assert kinds == list(dict.fromkeys(kinds))
    assert set(kinds) == set(get_args(EntryKind))


def test_the_sequence_diagram_names_hooks_and_journal_entries_that_exist() -> None:
    messages = re.findall(r"->>(\w): (.*)$", diagram("sequenceDiagram"), re.MULTILINE)
    hooks = {hook for target, text in messages if target == "H" for hook in text.split(", ")}
    entries = {text.split(" ")[0] for target, text in messages if target == "J"}
    assert hooks <= set(_methods("orchestrator/agent.py", "AgentConfig"))
    assert entries <= set(get_args(EntryKind))
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
