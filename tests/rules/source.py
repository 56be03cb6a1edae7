"""The package's files and their syntax trees, each parsed once."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "concertino"
SUITE = PACKAGE / "testing" / "store_suite"
"""Tests that the package ships: the rules of tests apply to them."""
FILES = sorted(path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(SUITE))
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file.

    The garbage collector waits: a finalizer of an earlier test may format a traceback, which parses source too, and
    Python 3.11 then raises `SystemError` because it counts the depth of both together.
    """
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def name(path: Path) -> str:
    """Return a file's path below the package, or below the repository."""
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()


def module(path: Path) -> str:
    """Return a module's dotted name below the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def unit(path: Path) -> str:
    """Return the name directly below the package to which a file belongs."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, *, type_checking: bool = True) -> Iterator[tuple[str, int]]:
    """Yield the absolute dotted name and the line of each import."""
    return ((found, line) for found, line, hidden in _imports(path) if type_checking or not hidden)


@cache
def _imports(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """Return the name and the line of each import, and whether it is for type checkers only."""
    tree = parse(path)
    found: list[tuple[str, int, bool]] = []
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    here = ["concertino", *path.relative_to(PACKAGE).parts[:-1]] if path.is_relative_to(PACKAGE) else []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            names = [*base, *(node.module or "").split(".")] if node.module else base
            found += ((".".join([*names, alias.name]), node.lineno, id(node) in hidden) for alias in node.names)
        elif isinstance(node, ast.Import):
            found += ((alias.name, node.lineno, id(node) in hidden) for alias in node.names)
    return tuple(found)
