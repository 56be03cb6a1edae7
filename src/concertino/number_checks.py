"""The checks of numbers that products set. Each error names the setting, its value and the remedy."""

from __future__ import annotations

import math
from decimal import Decimal

from .errors import ConfigurationError


def check_whole(kind: str, name: str, value: object, least: int = 1, *, optional: bool = False) -> None:
    """Raise `ConfigurationError` unless *value* is a whole number of at least *least*, or None if it is *optional*."""
    if (value is None and optional) or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
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
    """Raise `ConfigurationError` with the remedy *use* unless *value* is above 0, or 0 where *zero* is allowed."""
    if value is None and optional:
        return
    if (
        isinstance(value, int | float | Decimal)
        and not isinstance(value, bool)
        and (value > 0 or (zero and value == 0))
        and not (finite and value == math.inf)
    ):
        return
    raise _invalid(kind, name, value, use, optional=optional)


def check_size(kind: str, name: str, value: object, whole: str) -> None:
    """Raise `ConfigurationError` unless *value* is a share of *whole* below 1 or a whole number; 1.5 is neither."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (0 <= value < 1 or (isinstance(value, int) and value > 0)):  # type: ignore[operator]  # a number
        return
    raise _invalid(kind, name, value, f"a share of the {whole} below 1, or a whole number of tokens", optional=False)


def _invalid(kind: str, name: str, value: object, use: str, *, optional: bool) -> ConfigurationError:
    return ConfigurationError(f"{kind}({name}={value!r:.80}): use {use}{', or None' if optional else ''}")
