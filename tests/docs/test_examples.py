"""Every example of the documentation runs as printed."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .local_model import ollama

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = ("README.md", "coming-from.md")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
DELIMITER = re.compile(r"\| *:?--+:? *\|")
TABLE = re.compile(r"\|( *:?--+:? *\|)+")
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")


LONG = ("testing.md",)
"""Pages whose examples play hundreds of runs."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in LONG else []) for page in PAGES],
)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run them in the order of the page, in one namespace, with `await` allowed as in `python -m asyncio`.

    The examples in `PROGRAMS` are whole programs: each runs alone.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = page.read_text()
    namespace: dict[str, Any] = {"__name__": "__example__"}
    for block in BLOCK.finditer(text):
        if page.name in PROGRAMS:
            namespace = {"__name__": "__example__"}
        line = text.count("\n", 0, block.start(1))
        source = "\n" * line + block[1]
        code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with ollama(monkeypatch):
            outcome = eval(code, namespace)
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)


def test_every_hook_has_its_example() -> None:
    from concertino import AgentConfig

    text = (ROOT / "docs" / "hooks.md").read_text()
    hooks = {name for name, value in vars(AgentConfig).items() if callable(value) and not name.startswith("_")}
    for hook in hooks:
        assert f"### {hook}\n" in text
        assert f"def {hook}(" in text, f"{hook} has no example"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: str(path.name))
def test_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


LONG = ("testing.md",)
"""Pages whose examples play hundreds of runs."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in LONG else []) for page in PAGES],
)
def test_links_have_targets(page: Path) -> None:
    for link, anchor in LINK.findall(page.read_text()):
        if link.startswith("http"):
            continue
        target = page.parent / link if link else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_of_a_table_is_a_line(page: Path) -> None:
    """A table whose lines are filled like those of a paragraph is shown as a paragraph."""
    joined = [line for line in FENCED.sub("", page.read_text()).splitlines() if DELIMITER.search(line)]
    assert [line for line in joined if not TABLE.fullmatch(line)] == []


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
