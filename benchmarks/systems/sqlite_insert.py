"""The bare floor: an INSERT of the tool's result into a SQLite file, and a COMMIT that waits for the disk."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, SCRIPT, Outcome

DISTRIBUTIONS: tuple[str, ...] = ()
_Statements = tuple[tuple[str, tuple[Any, ...]], ...]


class SqliteInsert:
    """The loop around the tool, with one transaction per call and none for the start and end of a run."""

    schema = "CREATE TABLE results (body TEXT NOT NULL)"

    def __init__(self, tool: Callable[..., Any]) -> None:
        self._tool = tool
        self._connection: sqlite3.Connection | None = None

    async def open(self, path: str) -> None:
        """Create the file."""
        self._connection = connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(self.schema)

    async def run(self) -> Outcome:
        """Follow the script."""
        assert self._connection is not None
        script, steps = SCRIPT.get(), 0
        while True:
            turn = await script.next(1 + 2 * steps)
            if not turn.calls:
                return _outcome(turn.text, steps + 1)
            (call,) = turn.calls
            self._write(self._connection, self.statements(call.id, await self._tool(**json.loads(call.arguments))))
            steps += 1

    async def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()

    def statements(self, call_id: str, result: str) -> _Statements:
        """Return the statements of a step."""
        return (("INSERT INTO results VALUES (?)", (result,)),)

    def _write(self, connection: sqlite3.Connection, statements: _Statements) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for sql, values in statements:
            if connection.execute(sql, values).rowcount != 1:
                raise RuntimeError(f"statement changed no row: {sql}")
        connection.execute("COMMIT")


def _outcome(text: str, turns: int) -> Outcome:
    return Outcome(text, lambda: (turns * PROMPT_TOKENS, turns * COMPLETION_TOKENS))


def build(tool: Callable[..., Any]) -> SqliteInsert:
    """Return the loop around *tool*."""
    return SqliteInsert(tool)
