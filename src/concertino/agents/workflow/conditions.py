"""Conditions and templates over a workflow's variables. They are expressions without calls, read by `ast`."""

from __future__ import annotations

import ast
import functools
import json
import operator
from collections.abc import Callable, Collection, Mapping
from string import Template
from typing import Any

from ...errors import ConfigurationError

Condition = str | Callable[[Mapping[str, Any]], bool]
"""An expression such as `risk == 'high' and file not in known`, or a function of the variables."""
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_NAMES: dict[str, Any] = {"true": True, "false": False, "null": None}


def check_condition(owner: str, condition: Condition | None, names: Collection[str]) -> None:
    """Raise `ConfigurationError` unless *condition* is an expression over variables with these *names*."""
    if condition is None or callable(condition):
        return
    if not isinstance(condition, str):
        raise ConfigurationError(f"{owner}: invalid condition {condition!r:.80}: use an expression, or a function")
    try:
        parsed = _parsed(condition)
        _evaluate(parsed.body, None, condition)
    except ConfigurationError as error:
        raise ConfigurationError(f"{owner}: {error}") from None
    for node in ast.walk(parsed):
        if isinstance(node, ast.Name) and node.id not in names and node.id not in _NAMES and node.id != "len":
            known = ", ".join(sorted(names))
            raise ConfigurationError(f"{owner}: unknown variable {node.id!r} in {condition!r:.80}: choose from {known}")


def is_met(condition: Condition, variables: Mapping[str, Any]) -> bool:
    """Return whether *condition* is met; variables without a value are None. Raises `ConfigurationError`."""
    if callable(condition):
        return bool(condition(variables))
    try:
        return bool(_evaluate(_parsed(condition).body, variables, condition))
    except (TypeError, LookupError) as error:
        raise ConfigurationError(f"condition {condition!r:.80} cannot be evaluated: {error}") from None


@functools.cache
def _parsed(condition: str) -> ast.Expression:
    try:
        return ast.parse(condition.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigurationError(
            f"condition {condition!r:.80} is not an expression: use one such as risk == 'high'"
        ) from None


def _evaluate(node: ast.expr, variables: Mapping[str, Any] | None, text: str) -> Any:  # noqa: C901, PLR0911 - one case for each form
    """Return the value of *node*; without *variables*, only check its form."""
    inner = functools.partial(_evaluate, variables=variables, text=text)
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _NAMES[name] if name in _NAMES else None if variables is None else variables.get(name)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [inner(item) for item in items]
        case ast.BoolOp(op=op, values=parts):
            if variables is None:
                return [inner(part) for part in parts]
            return (all if isinstance(op, ast.And) else any)(inner(part) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not inner(part)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARE for op in ops):
            values = [inner(each) for each in (left, *others)]
            pairs = zip(values, ops, values[1:], strict=False)
            return variables is None or all(_COMPARE[type(op)](one, other) for one, op, other in pairs)
        case ast.Subscript(value=value, slice=ast.Constant(value=key)):
            found = inner(value)
            return None if variables is None else found[key]
        case ast.Call(func=ast.Name(id="len"), args=[value], keywords=[]):
            found = inner(value)
            return 0 if variables is None or found is None else len(found)
    raise ConfigurationError(
        f"condition {text!r:.80} has a part that is not supported: use variables, values, comparisons, 'and', 'or', "
        "'not', 'in', [key] and len()"
    )


def check_template(owner: str, template: object, names: Collection[str]) -> None:
    """Raise `ConfigurationError` if *template* is malformed or names a variable outside *names*."""
    if not isinstance(template, str):
        raise ConfigurationError(f"{owner}: invalid text {template!r:.80}: use a template such as 'Review $file'")
    if not Template(template).is_valid():
        raise ConfigurationError(f"{owner}: invalid template {template!r:.80}: use '$$' for a dollar sign")
    for name in Template(template).get_identifiers():
        if name not in names:
            known = ", ".join(f"${each}" for each in sorted(names))
            raise ConfigurationError(f"{owner}: unknown ${name}: choose from {known}")


def filled(template: str, variables: Mapping[str, Any]) -> str:
    """Return *template* with the values of its variables; one without a value is empty."""
    values = {name: as_text(variables.get(name)) for name in Template(template).get_identifiers()}
    return Template(template).substitute(values)


def filled_value(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return *value* with its templates filled; a text that is one `$name` alone becomes the variable's value."""
    if isinstance(value, str):
        name = value.removeprefix("$")
        return variables.get(name) if value != name and name.isidentifier() else filled(value, variables)
    if isinstance(value, Mapping):
        return {key: filled_value(each, variables) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [filled_value(each, variables) for each in value]
    return value


def as_text(value: Any) -> str:
    """Return *value* as a text for a prompt."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
