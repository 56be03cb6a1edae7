"""The statements in SQLite's dialect, and the functions that they use."""

from __future__ import annotations

import sqlite3
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache, lru_cache
from pathlib import Path

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


@lru_cache(16)
def _spaced(words: str) -> list[bytes]:
    # The rarest word is probably the longest: most texts are done with after a look for it.
    return sorted((f" {word} ".encode() for word in words.split()), key=len, reverse=True)


def _relevance(text: bytes, words: str) -> float | None:
    """Return the share of *words* in *text*, whose words are between spaces; None if it lacks one of them."""
    wanted = _spaced(words)
    return sum(map(text.count, wanted)) / len(text) if all(word in text for word in wanted) else None


def add_functions(connection: sqlite3.Connection) -> None:
    """Define the SQL functions `exact_sum` and `relevance` on *connection*."""
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
    connection.create_function("relevance", 2, _relevance, deterministic=True)
