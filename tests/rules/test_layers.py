"""Imports go down the layers of docs/architecture.md, in the package, its examples and its documentation."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

from . import allowed
from .source import FILES, PACKAGE, ROOT, imports, module, name, unit

LAYERS = (
    {
        "_version",
        "cache_rules",
        "errors",
        "event_form",
        "events",
        "extras",
        "ids",
        "image_tokens",
        "images",
        "messages",
        "operations",
        "number_checks",
        "quotas",
        "records",
        "scope",
        "targets",
        "text",
        "usage",
    }
    | {"context_state", "families", "unread_messages", "waits"},
    {"tools", "token_engine", "providers", "storage"},
    {"orchestrator"},
    {"agents"},
    {"runtime", "observability", "evaluation"},
    {"wiring", "server"},
    {"cli"},
)
LAYER = {unit: number for number, units in enumerate(LAYERS) for unit in units}
OUTSIDE = {"__init__": (), "demo": ("wiring", "cli"), "testing": ()}
"""Units without a layer, which may import all others, with the units that may import them."""
VENDORS = {
    "anthropic": ("providers/anthropic",),
    "cryptography": ("storage",),
    "docutils": ("tools/documents",),
    "google": ("providers/google",),
    "httpx2": ("providers", "testing", "tools/mcp", "tools/web"),
    "jinja2": ("server/page",),
    "markdown_it": ("server/page", "tools/documents"),
    "mcp": ("server/mcp", "tools/mcp"),
    "mcp_types": ("server/mcp", "tools/mcp"),
    "nats": ("runtime/bus",),
    "nh3": ("server/page",),
    "openai": ("providers/openai",),
    "opentelemetry": ("observability",),
    "psycopg": ("storage/postgres",),
    "pygments": ("server/page",),
    "rich": ("cli",),
    "sqlite3": ("storage/sqlite", "tools/corpus", "tools/documents", "tools/sql"),
    "starlette": ("server",),
    "tiktoken": ("providers/openai",),
    "uvicorn": ("server",),
    "trafilatura": ("tools",),
    "typer": ("cli",),
}
HEAVY = (
    "anthropic",
    "openai",
    "google.genai",
    "httpx2",
    "pydantic",
    "jsonschema",
    "sqlite3",
    "tiktoken",
    "genai_prices",
)
BEHAVIOUR = (
    *(
        "agents",
        "airline",
        "conformance",
        "crash",
        "docs",
        "engine",
        "evaluation",
        "guards",
        "mcp",
        "page",
        "policy",
        "runtime",
        "server",
        "testing",
    ),
    "token_engine",
)
"""Folders of tests of behaviour, which use the public names."""
CHEAP = ("concertino", "concertino.agents", "concertino.runtime", "concertino.storage", "concertino.testing")


def test_imports_go_down() -> None:
    wrong = []
    for path in FILES:
        own = unit(path)
        if own in OUTSIDE:
            continue
        assert own in LAYER, f"{own} has no layer: add it to docs/architecture.md and to LAYERS"
        for imported, line in imports(path):
            parts = imported.split(".")
            if parts[0] != "concertino" or len(parts) == 1 or parts[1] == own:
                continue
            other = parts[1]
            if other in OUTSIDE:
                allowed = own in OUTSIDE[other]
            else:
                allowed = LAYER[other] < LAYER[own] or LAYER[other] == LAYER[own] == 0
            if not allowed:
                wrong.append(f"{name(path)}:{line} imports {imported}")
    assert wrong == []


def test_modules_are_free_of_cycles() -> None:
    modules = {module(path) for path in FILES}
    graph: dict[str, set[str]] = {}
    for path in FILES:
        needed = set()
        for imported, _ in imports(path, type_checking=False):
            below = imported.removeprefix("concertino.")
            needed |= {below, below.rpartition(".")[0]} & modules
        own = module(path)
        packages = {own[:end] for end in range(len(own)) if own[end] == "."} | {own}
        graph[own] = needed - packages
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_a_vendors_package_is_imported_in_its_own_folder_only() -> None:
    wrong = [
        f"{name(path)}:{line} imports {imported}"
        for path in FILES
        for imported, line in imports(path)
        if not name(path).startswith(VENDORS.get(imported.split(".")[0], ("",)))
    ]
    assert wrong == []


def test_private_modules_of_other_packages_are_not_imported() -> None:
    wrong = [
        f"{name(path)}:{line} imports {imported}"
        for path in FILES
        for imported, line in imports(path)
        if imported.split(".")[0] not in {"concertino", *sys.stdlib_module_names} and "._" in imported
    ]
    assert wrong == []


def test_the_loop_is_not_imported_by_its_parts() -> None:
    wrong = [
        f"{name(path)}:{line} imports {imported}"
        for path in FILES
        if re.match(r"orchestrator/\w+/", name(path))
        for imported, line in imports(path)
        if re.match(r"concertino\.orchestrator\.(engine|turn)\b", imported)
    ]
    assert wrong == []


def test_importing_loads_no_sdk_and_nothing_heavy() -> None:
    imported = f"import sys, json, {', '.join(CHEAP)}; concertino.open_model"
    program = f"{imported}; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def is_public(imported: str) -> bool:
    """Return whether a name is imported from `concertino`, from a unit of it, or from a package that opens one.

    `concertino.providers.openai`, `concertino.tools.web` and `concertino.server.protocols` are such packages: each has
    an optional dependency or a set of ready-made parts. Everything deeper is private.
    """
    parts = imported.split(".")
    if parts[0] != "concertino" or len(parts) <= 3:
        return True
    return (
        len(parts) == 4
        and parts[1] in ("providers", "server", "testing", "tools")
        and PACKAGE.joinpath(*parts[1:-1]).is_dir()
    )


def deep_examples() -> Iterator[tuple[str, str]]:
    """Yield the page or file of an example and the private module that it imports."""
    for path in (ROOT / "examples").glob("*.py"):
        yield from ((name(path), imported) for imported, _ in imports(path) if not is_public(imported))
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            yield from ((name(page), imported) for imported in _imported(block) if not is_public(imported))


def test_examples_import_packages_only() -> None:
    assert list(deep_examples()) == []


def deep_tests() -> dict[str, set[str]]:
    """Return the private modules that the tests of behaviour import, by file."""
    files = [path for folder in BEHAVIOUR for path in (ROOT / "tests" / folder).rglob("*.py")]
    deep = {name(path): {imported for imported, _ in imports(path) if not is_public(imported)} for path in files}
    return {path: imported for path, imported in deep.items() if imported}


def test_tests_of_behaviour_import_packages_only() -> None:
    assert {path: imported for path, imported in deep_tests().items() if path not in allowed.DEEP_TESTS} == {}


def test_the_list_of_exceptions_shrinks() -> None:
    assert allowed.DEEP_TESTS - deep_tests().keys() == set(), "remove these from tests/rules/allowed.py"


def _imported(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found
