"""The checks of numbers that products set. Each error names the setting, its value and the remedy."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TypeGuard

from .errors import ConfigurationError

_MOST = 2**63 - 1
"""Largest whole number that every store takes."""


def check_whole(kind: str, name: str, value: object, least: int = 1, *, optional: bool = False) -> None:
    """Raise `ConfigurationError` unless *value* is a whole number of at least *least*, or None if it is *optional*."""
    if (value is None and optional) or (isinstance(value, int) and type(value) is not bool and least <= value <= _MOST):
        return
    raise _invalid(kind, name, value, f"a whole number of at least {least}", optional=optional)


def check_amount(
    kind: str,
    name: str,
    value: object,
    use: str = "a number above 0",
    *,
    zero: bool = False,
    finite: bool = False,
    optional: bool = False,
) -> None:
    """Raise `ConfigurationError` with the remedy *use* unless *value* is above 0, or 0 where *zero* is allowed.

    *finite*: neither infinity is allowed nor a `Decimal`, since a float is multiplied with it.
    """
    if value is None and optional:
        return
    if (
        (type(value) is float or _is_number(value, finite=finite))
        and (value > 0 or (zero and value == 0))
        and not (finite and value == math.inf)
    ):
        return
    raise _invalid(kind, name, value, use, optional=optional)


def check_size(kind: str, name: str, value: object, whole: str) -> None:
    """Raise `ConfigurationError` unless *value* is a share of *whole* below 1 or a whole number; 1.5 is neither."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (0 <= value < 1 or (isinstance(value, int) and 0 < value <= _MOST)):  # type: ignore[operator]
        return
    raise _invalid(kind, name, value, f"a share of the {whole} below 1, or a whole number of tokens", optional=False)


def _is_number(value: object, *, finite: bool) -> TypeGuard[float | Decimal]:
    """Return True if *value* is a number that can be compared, and, if *finite*, multiplied with a float."""
    if isinstance(value, Decimal):
        return not (finite or value.is_nan())
    if isinstance(value, int):
        return value <= _MOST and not isinstance(value, bool)
    return isinstance(value, float)


def _invalid(kind: str, name: str, value: object, use: str, *, optional: bool) -> ConfigurationError:
    shown = f"{value!r:.80}" if not isinstance(value, int) or abs(value) <= 10**80 else "<a huge number>"
    if isinstance(value, int) and value > _MOST:
        use = f"a whole number of at most {_MOST:,}"
    return ConfigurationError(f"{kind}({name}={shown}): use {use}{', or None' if optional else ''}")
