"""What a connection can do beyond SQLite: hashes to look names up by, and exact sums of money."""

from __future__ import annotations

import sqlite3
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from hashlib import blake2b

_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation])
_WIDE = Context(prec=60)
NANO = Decimal("1e-9")


def hash_key(name: str) -> int:
    """A number to look *name* up by: no index holds the name itself, because an index cannot be erased from."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def account_key(name: str) -> bytes:
    """What an account is kept under. It is long enough that no two accounts share it."""
    return blake2b(name.encode(), digest_size=16).digest()


def to_nano(money: Decimal, *, up: bool) -> int:
    """US dollars as whole billionths, rounded up (a charge) or down (a limit)."""
    return int(money.scaleb(9, _WIDE).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def from_nano(nano: int) -> Decimal:
    """Billionths as US dollars."""
    return Decimal(nano).scaleb(-9, _WIDE)


class _ExactSum:
    """Adds up decimals in text, NULL left out, without rounding."""

    def __init__(self) -> None:
        self._sum = Decimal(0)

    def step(self, value: str | None) -> None:
        """Add one."""
        if value is not None:
            self._sum = _EXACT.add(self._sum, Decimal(value))

    def finalize(self) -> str:
        """The sum."""
        return str(self._sum)


def add_functions(connection: sqlite3.Connection) -> None:
    """Make `hash_key` and `exact_sum` known to *connection*."""
    connection.create_function("hash_key", 1, hash_key, deterministic=True)
    connection.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]
