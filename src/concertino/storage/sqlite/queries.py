"""The SQL of the store, read from its `.sql` files."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from pathlib import Path

_SQL = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """The statements of all files, by name. A `/*word*/` in one is a place to be filled in."""
    found: dict[str, str] = {}
    for path in sorted(_SQL.glob("*.sql")):
        _, *pieces = _NAME.split(path.read_text("utf-8"))
        found.update((name, sql.strip()) for name, sql in zip(pieces[::2], pieces[1::2], strict=True))
    return found


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """The numbered scripts that make the schema, in order. The last number is the schema's version."""
    found = sorted((_SQL / "migrations").glob("[0-9]*.sql"))
    return tuple((int(path.name.partition("_")[0]), path.read_text("utf-8")) for path in found)


def statements(script: str) -> list[str]:
    """The statements of *script*, one by one: `executescript` would commit what is open."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending.strip())
            pending = ""
    return found
