"""The table of faults: number, title, the stores on which it makes sense, and the function that makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .world import Case

BOTH = ("sqlite", "postgres")
Run = Callable[[Case], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """A fault. *run* sends messages, makes the fault and waits until all work is done; the auditor does the rest."""

    number: int
    title: str
    stores: tuple[str, ...]
    empty: bool
    """Whether it begins with a database without a schema."""
    run: Run

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.run.__name__  # type: ignore[attr-defined, no-any-return]


FAULTS: list[Fault] = []

NOT_MADE = {
    22: "JetStream loses a stream or acknowledged messages: nothing is stored in NATS, so nothing can be lost there",
}
"""Faults that no test makes, and the reason."""


def fault(number: int, title: str, *stores: str, empty: bool = False) -> Callable[[Run], Run]:
    """Add a fault to the table."""

    def add(run: Run) -> Run:
        FAULTS.append(Fault(number, title, stores or BOTH, empty, run))
        return run

    return add


def rows() -> list[str]:
    """Return the rows of the table in the documentation."""
    made = sorted(FAULTS, key=lambda each: each.number)
    names = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
    return [f"| {each.number} | {each.title} | {', '.join(names[store] for store in each.stores)} |" for each in made]
