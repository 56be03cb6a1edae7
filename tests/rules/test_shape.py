"""The house rules, as tests: floors, cycles, sizes, public names, and what an import may load."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import concertino

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "concertino"
FLOORS = {
    "_version": 0, "context": 0, "waits": 0, "errors": 0, "extras": 0, "ids": 0, "messages": 0, "events": 0, "usage": 0,
    "families": 0, "operations": 0, "scope": 0, "text": 0,
    "tools": 1, "token_engine": 1, "providers": 1, "storage": 1,
    "orchestrator": 2, "agents": 3, "runtime": 4, "server": 5, "wiring": 5, "cli": 6,
}  # fmt: skip
BESIDE = {"testing", "demo", "__init__"}
"""Packages outside of the floors: they may import everything; only the CLI, and wiring for `demo`, import them."""
VENDORS = {
    "anthropic": "providers/anthropic", "openai": "providers/openai", "google": "providers/google",
    "sqlite3": ("storage/sqlite", "tools/documents"), "httpx2": ("tools/web", "providers", "testing"),
    "trafilatura": "tools", "docutils": "tools/documents", "markdown_it": "tools/documents",
    "typer": "cli", "rich": "cli",
}  # fmt: skip
LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS, MOST_METHODS = 500, 80, 10, 30

FILES = sorted(PACKAGE.rglob("*.py"))


def module(path: Path) -> str:
    """The dotted name below the package; a package's own file has the package's name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(path: Path, *, at_run_time: bool = True) -> Iterator[tuple[str, int]]:
    """What a file imports from concertino, as dotted names below the package, with the line."""
    tree = ast.parse(path.read_text())
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    here = ["concertino", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if at_run_time and id(node) in hidden:
            continue
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            names = [*base, *(node.module or "").split(".")] if node.module else base
            for alias in node.names:
                yield ".".join([*names, alias.name]), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno


def top(name: str) -> str | None:
    """The floor's name in a dotted import, if it is one of ours."""
    parts = name.split(".")
    return parts[1] if parts[0] == "concertino" and len(parts) > 1 else None


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_go_down(path: Path) -> None:
    own = module(path).split(".")[0]
    if own in BESIDE:
        return
    assert own in FLOORS, f"{own} has no floor; give it one in docs/architecture.md and here"
    for name, line in imports(path, at_run_time=False):
        other = top(name)
        if other is None or other == own or (own == "cli" and other in BESIDE) or (own, other) == ("wiring", "demo"):
            continue
        assert other not in BESIDE, f"{path.name}:{line}: nothing imports {other}"
        downward = FLOORS[other] < FLOORS[own] or FLOORS[other] == FLOORS[own] == 0  # nouns are made of nouns
        assert downward, f"{path.relative_to(ROOT)}:{line}: {own} (floor {FLOORS[own]}) imports {other}"


def test_modules_are_free_of_cycles() -> None:
    names = {module(path) for path in FILES}
    graph: dict[str, set[str]] = {}
    for path in FILES:
        needed = set()
        for name, _ in imports(path):
            below = name.removeprefix("concertino.")
            needed |= {candidate for candidate in (below, below.rpartition(".")[0]) if candidate in names}
        own = module(path)
        packages = {own[:place] for place in range(len(own)) if own[place] == "."} | {own}
        graph[own] = needed - packages
    TopologicalSorter(graph).prepare()  # raises CycleError, naming the ring


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_vendors_package_is_imported_in_its_own_folder_only(vendor: str) -> None:
    allowed = VENDORS[vendor]
    folders = (allowed,) if isinstance(allowed, str) else tuple(allowed)
    for path in FILES:
        for name, line in imports(path, at_run_time=False):
            if name.split(".")[0] == vendor:
                place = path.relative_to(PACKAGE).as_posix()
                assert place.startswith(folders), f"{place}:{line} imports {vendor}"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, f"{node.name} is too long"
            taken = [a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg != "self"]
            assert len(taken) <= MOST_PARAMETERS, f"{node.name} takes {len(taken)} parameters"
        elif isinstance(node, ast.ClassDef):
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
            assert len(methods) <= MOST_METHODS, f"{node.name} has {len(methods)} methods"


def test_the_public_names_are_there_and_sorted() -> None:
    assert concertino.__all__ == sorted(concertino.__all__)
    for name in concertino.__all__:
        assert hasattr(concertino, name)


def test_an_import_loads_no_sdk_and_nothing_heavy() -> None:
    heavy = ["anthropic", "openai", "google.genai", "httpx2", "pydantic", "jsonschema", "tiktoken", "genai_prices"]
    code = f"import sys, json, concertino; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == []


@pytest.mark.parametrize("name", ["Tool", "AgentConfig", "Chat", "ToolOrchestrator", "ToolRegistry", "Run", "tool"])
def test_public_names_say_what_they_are_for(name: str) -> None:
    assert getattr(concertino, name).__doc__


@pytest.mark.parametrize("path", FILES, ids=module)
def test_public_functions_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the file says nothing of itself"
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        overload = any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)
        if not node.name.startswith("_") and not overload:
            assert ast.get_docstring(node), f"{node.name} has no docstring"
