"""Each module and each public type has a name of its own, and exported names exist."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import concertino

from . import allowed
from .source import FILES, Function, name, parse

SHARED_MODULES = {"__init__", "__main__", "base", "errors"}
EXEMPT = (
    *("providers/anthropic/", "providers/google/", "providers/openai/", "storage/postgres/"),
    *("storage/sql/", "storage/sqlite/"),
    "cli/commands/",
)


def duplicate_modules() -> set[str]:
    """Return the names of modules that occur more than once."""
    names = Counter(path.stem for path in FILES if not name(path).startswith(EXEMPT))
    return {each for each, times in names.items() if times > 1} - SHARED_MODULES


def duplicate_types() -> set[str]:
    """Return the names of public classes and type aliases that are defined in more than one module."""
    names = Counter(each for path in FILES if not name(path).startswith(EXEMPT) for each in _types(parse(path)))
    return {each for each, times in names.items() if times > 1}


def _types(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            alias = node.targets[0].id
            if alias[0].isupper() and not alias.isupper() and not isinstance(node.value, ast.Call):
                yield alias


def test_module_names_are_unique() -> None:
    assert duplicate_modules() - allowed.DUPLICATE_MODULES == set()


def test_public_type_names_are_unique() -> None:
    assert duplicate_types() - allowed.DUPLICATE_TYPES == set()


def test_the_lists_of_exceptions_shrink() -> None:
    stale = (allowed.DUPLICATE_MODULES - duplicate_modules()) | (allowed.DUPLICATE_TYPES - duplicate_types())
    assert stale == set(), "remove these from tests/rules/allowed.py"


def test_the_facade_is_sorted() -> None:
    assert concertino.__all__ == sorted(concertino.__all__, key=lambda public: (not public.isupper(), public))
    for public in concertino.__all__:
        assert hasattr(concertino, public)


def test_the_exported_names_of_each_package_exist() -> None:
    missing = [f"{name(path)}: {each}" for path in FILES for each in _exported(parse(path)) - _defined(parse(path))]
    assert missing == []


def _exported(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and isinstance(node.value, ast.List)
        ):
            return set(ast.literal_eval(node.value))
    return set()


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module defines; a lazy one (`__getattr__`) defines all that it exports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found | _exported(tree) if "__getattr__" in found else found
