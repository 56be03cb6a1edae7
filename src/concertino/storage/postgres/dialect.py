"""The named statements in the dialect of PostgreSQL."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import count
from pathlib import Path

from ..sql.statements import read_statements, shared_queries

_NUMBERED = (
    *("add_entry", "add_outcome", "add_end", "add_event_row"),
    *("add_conversation", "add_turn", "add_memory", "add_schedule"),
)
"""Statements whose callers need the number of the new row."""
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)|\?")
_FOR_UPDATE = re.compile(r"/\*for update of (\w+)\*/")
"""Marks rows that several processes want to change: each takes the free ones."""


@cache
def queries() -> dict[str, str]:
    """Return the named statements."""
    found = shared_queries() | read_statements(Path(__file__).parent / "queries")
    found = {name: _FOR_UPDATE.sub(r"FOR UPDATE OF \1 SKIP LOCKED", text) for name, text in found.items()}
    found["held_targets"] = found["held_targets"].replace("/*for share*/", "FOR SHARE")
    return found | {name: f"{found[name].rstrip(';')}\nRETURNING number" for name in _NUMBERED}


@lru_cache(1024)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return *sql* with the numbered parameters of the server, and the names of the named ones."""
    # SQLite keeps the order of a CROSS JOIN, which may have a condition there.
    sql = sql.replace("CROSS JOIN", "JOIN")
    names: dict[str, int] = {}
    positions = count(1)

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1) if found[1] else next(positions)}"

    return _PARAMETER.sub(number, sql), tuple(names)
