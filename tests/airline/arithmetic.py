"""Sums as a model writes them: numbers, + - * /, and parentheses."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from decimal import Decimal, DecimalException

from concertino.errors import ToolError

_SIGNS: dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def value(expression: str) -> Decimal:
    """The value. Raises `ToolError` for anything else."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, DecimalException) as error:
        raise ToolError(f"{expression!r} cannot be calculated") from error


def _value(node: ast.expr) -> Decimal:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Decimal(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_value(left), _value(right))
        case _:
            raise SyntaxError(ast.dump(node))
