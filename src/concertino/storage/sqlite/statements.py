"""The statements in SQLite's dialect, and the functions that they use."""

from __future__ import annotations

import sqlite3
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from pathlib import Path

from ..sql.search import relevance
from ..sql.statements import read_statements, shared_queries

_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation])


@cache
def queries() -> dict[str, str]:
    """Return the named statements."""
    return shared_queries() | read_statements(Path(__file__).parent / "queries")


class _ExactSum:
    """An SQL aggregate: the sum of decimals in text, without NULL and without rounding."""

    def __init__(self) -> None:
        self._sum = Decimal(0)

    def step(self, value: str | None) -> None:
        """Add one value."""
        if value is not None:
            self._sum = _EXACT.add(self._sum, Decimal(value))

    def finalize(self) -> str:
        """Return the sum."""
        return str(self._sum)


def add_functions(connection: sqlite3.Connection) -> None:
    """Define the SQL functions `exact_sum` and `relevance` on *connection*."""
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
    connection.create_function("relevance", 2, relevance, deterministic=True)
