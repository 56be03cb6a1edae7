"""The named SQL statements, and the functions that they use."""

from __future__ import annotations

import re
import sqlite3
import time
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from pathlib import Path

clock = time.time
"""Return the store's time. Everything that is scheduled is compared with it, and with no other clock."""

_SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation])


@cache
def queries() -> dict[str, str]:
    """Return the statements of all SQL files by name. A comment such as `/*conditions*/` is replaced by the caller."""
    found: dict[str, str] = {}
    for path in sorted(_SQL.glob("*.sql")):
        _, *pieces = _NAME.split(path.read_text("utf-8"))
        found.update((name, sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True))
    return found


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
    """Define the SQL function `exact_sum` on *connection*."""
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
