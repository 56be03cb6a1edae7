"""Hand-written violations: a valid request, and one change that makes it invalid."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
Change = Callable[[Json], object]


def spoilt(good: Json, change: Change) -> Json:
    """Return *good* after the *change*."""
    body = deepcopy(good)
    change(body)
    return body


def put(value: Any, *way: str | int) -> Change:
    """Set the value at the path *way*."""

    def change(body: Any) -> None:
        for step in way[:-1]:
            body = body[step]
        body[way[-1]] = value

    return change


def drop(*way: Any) -> Change:
    """Remove the value at the path *way*."""

    def change(body: Any) -> None:
        for step in way[:-1]:
            body = body[step]
        del body[way[-1]]

    return change


def add(value: Any, *way: str | int, at: int | None = None) -> Change:
    """Insert *value* into the list at the path *way*, at the index *at* or at the end."""

    def change(body: Any) -> None:
        for step in way:
            body = body[step]
        body.insert(len(body) if at is None else at, value)

    return change


def both(*changes: Change) -> Change:
    """Combine several changes into one violation."""
    return lambda body: [change(body) for change in changes]
