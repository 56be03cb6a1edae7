"""Files, functions and classes stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from . import allowed
from .source import FILES, PACKAGE, Function, name, parse

FILE_LINES, FUNCTION_LINES, PARAMETERS, METHODS = 500, 80, 8, 20
TOKEN_ENGINE_LINES = 1_800
"""Lines of the token engine, with counting and the rules of prompt caches."""


def excesses() -> Iterator[str]:
    """Yield what is over a budget."""
    for path in FILES:
        if path.read_text().count("\n") > FILE_LINES:
            yield name(path)
        for node in ast.walk(parse(path)):
            if isinstance(node, Function):
                lines = (node.end_lineno or 0) - node.lineno + 1
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if lines > FUNCTION_LINES or len([each for each in arguments if each.arg != "self"]) > PARAMETERS:
                    yield f"{name(path)}:{node.name}"
            elif isinstance(node, ast.ClassDef) and sum(isinstance(each, Function) for each in node.body) > METHODS:
                yield f"{name(path)}:{node.name}"


def test_nothing_is_over_a_budget() -> None:
    assert set(excesses()) - allowed.LARGE == set()


def test_the_token_engine_stays_small() -> None:
    engine = [path for path in FILES if path.is_relative_to(PACKAGE / "token_engine")]
    lines = sum(path.read_text().count("\n") for path in (*engine, PACKAGE / "cache_rules.py"))
    assert len(engine) > 10
    assert lines <= TOKEN_ENGINE_LINES


def test_the_list_of_exceptions_shrinks() -> None:
    assert allowed.LARGE - set(excesses()) == set(), "remove these from tests/rules/allowed.py"
