"""The named SQL statements, the transactions that they run in, and the functions and keys that they use."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Generic, TypeVar

from ...scope import Scope

T = TypeVar("T")

_SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation])
_WIDE = Context(prec=60)


@cache
def queries() -> dict[str, str]:
    """Return the statements of all SQL files by name. A comment such as `/*conditions*/` is replaced by the caller."""
    found: dict[str, str] = {}
    for path in sorted(_SQL.glob("*.sql")):
        _, *pieces = _NAME.split(path.read_text("utf-8"))
        found.update((name, sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True))
    return found


def clock() -> float:
    """Return the store's time. Everything that is scheduled is compared with it, and with no other clock."""
    return time.time()


class Write(Generic[T]):
    """Work to do in one transaction, alone or together with other writes.

    It must only depend on the connection, because it may be repeated after the transaction was rolled back.
    """

    __slots__ = ("entry", "erased", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.entry = 0
        """Number of the journal entry that the work added, in the order of all entries; 0: none."""
        self.erased = False
        """Whether the work erased content, so that the write-ahead log must be truncated."""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write everything inside, or nothing. The write lock is taken at once: no later statement can fail for it."""
    with within(connection, "BEGIN IMMEDIATE"):
        yield


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """Read everything inside at one moment."""
    with within(connection, "BEGIN"):
        yield


@contextmanager
def within(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Run the block in the transaction that the statement *begin* opens."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some failures (a full disk) have rolled back already.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def hash_key(name: str) -> int:
    """Return a number to look *name* up by. No index contains the name itself: an index cannot be erased from."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


@lru_cache(4096)
def scope_key(scope: Scope) -> int:
    """Return the number to look *scope* up by."""
    return hash_key(scope.key)


def scope_row(scope: Scope) -> dict[str, object]:
    """Return the parameters of a statement that is limited to *scope*."""
    return {"scope_key": scope_key(scope), "tenant": scope.tenant, "user": scope.user}


def account_key(name: str) -> bytes:
    """Return the key of an account, long enough that no two accounts share it."""
    return blake2b(name.encode(), digest_size=16).digest()


def to_nano(money: Decimal, *, up: bool) -> int:
    """Return US dollars as whole billionths, rounded up (a charge) or down (a limit)."""
    return int(money.scaleb(9, _WIDE).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def from_nano(nano: int) -> Decimal:
    """Return billionths as US dollars."""
    return Decimal(nano).scaleb(-9, _WIDE)


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
