"""The named SQL statements, the functions that they use, and the rule of who reaches what as one SQL predicate."""

from __future__ import annotations

import re
import sqlite3
import time
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache, lru_cache
from pathlib import Path

from ...errors import ConfigurationError
from ...scope import AnyScope, TenantScope
from .rows import scope_row

clock = time.time
"""Return the store's time. Everything that is scheduled is compared with it, and with no other clock."""

_SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_REACHED = re.compile(r"/\*reached (\w+)\*/")
_PREDICATES = {
    # The hash is indexed, and the ids decide: another scope may have the same hash.
    "Scope": "({t}.scope_key = :scope_key AND {t}.tenant = :tenant AND {t}.user_id = :user)",
    "TenantScope": "({t}.tenant = :tenant AND {t}.tenant <> '')",  # the condition of the index of tenants
    "TenantScope of a single tenant": "{t}.tenant = ''",
    "Operator": "true",
}
"""The rule `reaches` of each kind of scope, for the owner of a row of the table *t*."""
_MOST_ROWS = 2**63 - 1
_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation])


def most(limit: int) -> int:
    """Return *limit* within SQLite's range, where a negative number would mean no limit."""
    return max(0, min(limit, _MOST_ROWS))


@cache
def queries() -> dict[str, str]:
    """Return the statements of all SQL files by name. A comment such as `/*conditions*/` is replaced by the caller."""
    found: dict[str, str] = {}
    for path in sorted(_SQL.glob("*.sql")):
        _, *pieces = _NAME.split(path.read_text("utf-8"))
        found.update((name, sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True))
    return found


def scoped(name: str, scope: AnyScope) -> tuple[str, dict[str, object]]:
    """Return the statement *name*, limited to the rows that *scope* reaches, and the parameters of the limit.

    A statement marks the limit with a comment such as `/*reached r*/`, where `r` is the table with the owner's columns.
    """
    kind = type(scope).__name__
    if isinstance(scope, TenantScope) and not scope.tenant:
        kind = "TenantScope of a single tenant"
    return limited(name, kind), scope_row(scope)


@cache
def limited(name: str, kind: str) -> str:
    """Return the statement *name*, limited for scopes of this kind."""
    if kind not in _PREDICATES:
        raise ConfigurationError(f"invalid scope of type {kind}: use a Scope, a TenantScope or OPERATOR")
    return _REACHED.sub(lambda mark: _PREDICATES[kind].format(t=mark[1]), queries()[name])


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
