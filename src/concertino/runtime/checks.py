"""Checks of the texts and numbers that a caller passes, before they reach the store or a model."""

from __future__ import annotations

from ..errors import ConfigurationError
from ..ids import is_generated, named_run_id
from ..scope import Scope

_MOST = 2**63 - 1
"""The greatest number that a store has."""


def check_text(**named: object) -> None:
    """Raise `ConfigurationError`, which names the argument, unless each is text that any store and provider takes."""
    for name, value in named.items():
        if not isinstance(value, str):
            raise ConfigurationError(f"invalid {name} of type {type(value).__name__}: use text")
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ConfigurationError(f"invalid {name}: it has a lone surrogate; use valid Unicode")
        if "\0" in value:
            raise ConfigurationError(f"invalid {name}: it has a NUL character; remove it")


def check_number(**named: object) -> None:
    """Raise `ConfigurationError`, which names the argument, unless each is a whole number from 0 that a store has."""
    for name, value in named.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigurationError(f"invalid {name} {value!r:.80}: use a whole number")
        if not 0 <= value <= _MOST:
            raise ConfigurationError(f"invalid {name} {value!r:.80}: use a number from 0 to {_MOST:,}")


def chosen_run_id(scope: Scope, run_id: str) -> str:
    """Return the id under which the run is stored that *scope* calls *run_id*; a tenant's is derived from it.

    Raises `ConfigurationError` for an id of the derived form, which would keep the run of a tenant from starting.
    """
    if scope.tenant:
        return named_run_id(scope.key, run_id)
    if is_generated(run_id):
        raise ConfigurationError(f"invalid run_id {run_id!r}: the runtime makes ids of this form; choose another")
    return run_id
