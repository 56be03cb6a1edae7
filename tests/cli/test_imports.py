"""The import graph of the command line: short chains, and imports that only go down."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import concertino.cli

PACKAGE = Path(concertino.cli.__file__).parent
DEEPEST = 8


def modules() -> dict[str, Path]:
    """Return the modules by their dotted name below `concertino.cli`."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.stem not in ("__init__", "__main__")
    }


@cache
def imported(name: str) -> frozenset[str]:
    """Return the modules of the command line that *name* imports, also inside functions and for types."""
    known = modules()
    package = name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(known[name].read_text())):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package) + 1:
            base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
            target = ".".join(part for part in base if part)
            found |= {target} & known.keys()
            found |= {f"{target}.{alias.name}".lstrip(".") for alias in node.names} & known.keys()
    return frozenset(found)


@cache
def longest_chain(name: str) -> tuple[str, ...]:
    """Return the longest chain of imports that starts at *name*."""
    return (name, *max((longest_chain(other) for other in sorted(imported(name))), key=len, default=()))


def test_an_import_chain_below_the_app_has_at_most_eight_levels() -> None:
    chain = longest_chain("app")
    assert 4 <= len(chain) - 1 <= DEEPEST, " > ".join(chain)


def test_render_imports_no_command_and_no_command_imports_the_app() -> None:
    for name in modules():
        for other in imported(name):
            assert not (name.startswith("render.") and not other.startswith("render.") and other != "signals"), (
                f"{name} imports {other}"
            )
            assert not (name.startswith("commands.") and other in ("app", "program") and name != "commands.runs"), (
                f"{name} imports {other}"
            )


def test_every_module_is_reached_from_the_app() -> None:
    reached, todo = set(), ["app"]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += imported(name)
    assert reached == modules().keys()
