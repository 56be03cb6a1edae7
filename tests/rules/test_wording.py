"""Docstrings, comments, error messages, identifiers and pages use the field's words, in plain sentences."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import allowed
from .source import FILES, ROOT, Function, name, parse, unit

WORDS = {
    *("anybody", "beside", "dear", "dearer", "dearest", "heed", "heeded", "heeds", "hold", "holds", "how-manieth"),
    *("life", "mend", "mended", "mends", "nobody", "place", "places", "rent", "room", "said", "says", "somebody"),
    *("squeeze", "squeezed", "standing", "throw", "throws", "told", "upkeep", "whoever", "wish", "wishes"),
}
PHRASES = (
    r"as it were",
    r"could not be asked",
    r"(?:given|gives?) along",
    r"go(?:es|ing|ne)? on with",
    r"(?<!there )is no(?! (?:longer|more than)\b)",
    r"(?:is|are) (?-i:none)",
    r"le(?:t|ts|tting) go",
    r"of which nobody",
    r"(?:ones?|those) that",
    r"so that it be",
    r"(?:take|takes|taken|took|taking) up",
    r"(?:the|its|their|our) means(?! (?:of|to)\b)",
    r"in (?:its|their) stead",
    r"of its own accord",
)
ORDINARY = re.compile(r"\b(?:in[ -]place|take(?:s|n)? place|took place|taking place)\b", re.IGNORECASE)
BANNED = re.compile(rf"(?<![\w-])(?:{'|'.join([*sorted(WORDS), *PHRASES])})(?![\w-])", re.IGNORECASE)
IDENTIFIERS = {*WORDS, "means"}
OPENING = re.compile(r"(?:What|Whether|How|Of|One (?:that|which|who)|Those|That|Who|Whose|Where|Which|All that)\b")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def banned(text: str) -> Iterator[str]:
    """Yield the banned words of a text; code between backticks does not count."""
    prose = ORDINARY.sub("", CODE.sub("`code`", text))
    yield from (" ".join(found[0].split()) for found in BANNED.finditer(prose))


def of_file(path: Path) -> Iterator[str]:
    """Yield each violation in a Python file."""
    where, tree = name(path), parse(path)
    for line, text in (*_docstrings(tree), *_comments(path), *_errors(tree)):
        yield from (f"{where}:{line}: {word}" for word in banned(text))
    for line, text in _docstrings(tree, attributes=False):
        if opening := OPENING.match(text):
            yield f"{where}:{line}: docstring begins with {opening[0]!r}"
    for line, identifier in _identifiers(tree):
        parts = re.findall(r"[A-Z]?[a-z]+", identifier)
        yield from (f"{where}:{line}: {part} in {identifier}" for part in parts if part.lower() in IDENTIFIERS)


def _docstrings(tree: ast.Module, *, attributes: bool = True) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text
        if attributes and isinstance(node, ast.ClassDef | ast.Module):
            for below in node.body[1:]:
                if (
                    isinstance(below, ast.Expr)
                    and isinstance(below.value, ast.Constant)
                    and below.value.value is not ...
                ):
                    yield below.lineno, str(below.value.value)


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _errors(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts in `raise` statements and in calls that make an error or log."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise | ast.Call):
            continue
        if isinstance(node, ast.Call) and not re.search(r"Error$|Notice$|^log\.", ast.unparse(node.func)):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.lineno, inner.value


def _identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def of_page(path: Path) -> Iterator[str]:
    """Yield each violation in a page."""
    text = CODE.sub(lambda code: "\n" * code[0].count("\n") or "`code`", path.read_text())
    for number, line in enumerate(text.splitlines(), 1):
        yield from (f"{name(path)}:{number}: {word}" for word in banned(line))


UNITS: dict[str, list[Path]] = {}
for _path in FILES:
    UNITS.setdefault(unit(_path), []).append(_path)


def of_unit(key: str) -> list[str]:
    """Return all violations in a page, or in a module or package directly below `concertino`."""
    if key.endswith(".md"):
        return list(of_page(ROOT / key))
    return sorted({each for path in UNITS[key] for each in of_file(path)})


KEYS = [*UNITS, *(name(path) for path in PAGES if path.exists())]


@pytest.mark.parametrize("key", [key for key in KEYS if key not in allowed.WORDING])
def test_no_banned_words(key: str) -> None:
    assert of_unit(key) == []


def test_the_list_of_exceptions_shrinks() -> None:
    clean = {key for key in allowed.WORDING if key not in KEYS or not of_unit(key)}
    assert clean == set(), "remove these from tests/rules/allowed.py"


@pytest.mark.parametrize("text", ["The step's place in the list.", "Somebody else has it.", "It goes on with the run."])
def test_a_banned_word_is_found(text: str) -> None:
    assert list(banned(text))


@pytest.mark.parametrize("text", ["There is no run.", "It sorts in place.", "`place` is a name.", "A placeholder."])
def test_an_ordinary_word_is_not_found(text: str) -> None:
    assert list(banned(text)) == []
