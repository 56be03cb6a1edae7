"""The checks of numbers that products set. Each error names the setting, its value and the remedy."""

from __future__ import annotations

import math
from decimal import Decimal

from .errors import ConfigurationError

_MOST = 10**15
"""Largest whole number: float arithmetic is exact up to about nine times as much."""


def check_whole(kind: str, name: str, value: object, least: int = 1, *, optional: bool = False) -> None:
    """Raise `ConfigurationError` unless *value* is a whole number of at least *least*, or None if it is *optional*."""
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _invalid(kind, name, value, f"a whole number of at least {least}", optional=optional)
    _check_most(kind, name, value, optional=optional)


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
        not isinstance(value, int | float | Decimal)
        or isinstance(value, bool)
        or (isinstance(value, Decimal) and (value.is_nan() or finite))
        or not (value > 0 or (zero and value == 0))
        or (finite and value == math.inf)
    ):
        raise _invalid(kind, name, value, use, optional=optional)
    _check_most(kind, name, value, optional=optional)


def check_size(kind: str, name: str, value: object, whole: str) -> None:
    """Raise `ConfigurationError` unless *value* is a share of *whole* below 1 or a whole number; 1.5 is neither."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 <= value < 1 or (isinstance(value, int) and value > 0)):  # type: ignore[operator]
        use = f"a share of the {whole} below 1, or a whole number of tokens"
        raise _invalid(kind, name, value, use, optional=False)
    _check_most(kind, name, value, optional=False)


def _check_most(kind: str, name: str, value: object, *, optional: bool) -> None:
    if isinstance(value, int) and value > _MOST:
        raise _invalid(kind, name, value, f"a whole number of at most {_MOST:,}", optional=optional)


def _invalid(kind: str, name: str, value: object, use: str, *, optional: bool) -> ConfigurationError:
    long = isinstance(value, int) and value.bit_length() > 256  # Python writes no number of 4,300 digits
    shown = f"<a number of {value.bit_length()} bits>" if long else f"{value!r:.80}"  # type: ignore[attr-defined]
    return ConfigurationError(f"{kind}({name}={shown}): use {use}{', or None' if optional else ''}")
