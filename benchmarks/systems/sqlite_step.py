"""The floor of a whole step: compare and swap the run's head, insert the result and the step, commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.systems.sqlite_insert import SqliteInsert

DISTRIBUTIONS: tuple[str, ...] = ()
_EPOCH = 1


class SqliteStep(SqliteInsert):
    """A fenced step: a worker that lost its lease cannot write it, since its epoch or head is outdated."""

    schema = """
        CREATE TABLE runs (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, head INTEGER NOT NULL);
        CREATE TABLE cards (run INTEGER, number INTEGER, kind TEXT, body TEXT, UNIQUE (run, number));
        CREATE TABLE steps (run INTEGER, number INTEGER, call TEXT, UNIQUE (run, number));
        INSERT INTO runs VALUES (1, 1, 0);
    """

    def __init__(self, tool: Callable[..., Any]) -> None:
        super().__init__(tool)
        self._head = 0

    def statements(self, call_id: str, result: str) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """Return the statements of a step."""
        head, self._head = self._head, self._head + 1
        return (
            ("UPDATE runs SET head = head + 1 WHERE id = 1 AND epoch = ? AND head = ?", (_EPOCH, head)),
            ("INSERT INTO cards VALUES (1, ?, 'result', ?)", (head, result)),
            ("INSERT INTO steps VALUES (1, ?, ?)", (head, call_id)),
        )


def build(tool: Callable[..., Any]) -> SqliteStep:
    """Return the loop around *tool*."""
    return SqliteStep(tool)
