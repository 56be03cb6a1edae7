"""The port of the data-analysis tool: tables that answer queries in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..records import record


@record(kw_only=True)
class QueryRows:
    """The answer to a query."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """JSON values."""
    more: bool = False
    """True if the query has more rows than the limit."""


class Tables(Protocol):
    """Read-only tables. The adapter is `tools.sql`."""

    def schema(self) -> str:
        """Return the tables and their columns as text for the model."""
        ...

    async def query(self, sql: str) -> QueryRows:
        """Return the rows of one SELECT.

        Raises `ToolError`, with a text for the model, if the query is invalid, not allowed, or exceeds a limit.
        """
        ...
