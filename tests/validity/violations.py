"""Hand-written violations: a good request, and one change that spoils it in one respect."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
Change = Callable[[Json], object]


def spoilt(good: Json, change: Change) -> Json:
    """*good* after the *change*."""
    body = deepcopy(good)
    change(body)
    return body


def put(value: Any, *way: str | int) -> Change:
    """Sets what is at the end of the *way*."""

    def change(body: Any) -> None:
        for step in way[:-1]:
            body = body[step]
        body[way[-1]] = value

    return change


def drop(*way: Any) -> Change:
    """Takes away what is at the end of the *way*."""

    def change(body: Any) -> None:
        for step in way[:-1]:
            body = body[step]
        del body[way[-1]]

    return change


def add(value: Any, *way: str | int, at: int | None = None) -> Change:
    """Puts *value* into the list at the end of the *way*; *at* a place, or at its end."""

    def change(body: Any) -> None:
        for step in way:
            body = body[step]
        body.insert(len(body) if at is None else at, value)

    return change


def both(*changes: Change) -> Change:
    """Several changes that make one violation."""
    return lambda body: [change(body) for change in changes]
