"""Data analysis: figures that the model computes with SQL over the user's tables."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from ..base import Tool, ToolContext
from ..function import tool
from ..tables import Tables
from .backend import Backend, PerCall

_DESCRIPTION = (
    "Compute figures from the user's tables with one SELECT in the SQL of SQLite. Aggregate in SQL: only the first "
    "rows of an answer are returned. Without `sql`, the tables and their columns are returned."
)


def data_analysis(tables: Tables | PerCall[Tables] | None) -> Tool:
    """Return the tool `data_analysis`, which runs the model's SQL over *tables*.

    *tables* is a `Tables`, such as `concertino.tools.sql.SqliteTables(path)`, whose schema becomes part of the tool's
    description; or a function that returns the tables of one call, whose schema the model asks for. Raises
    `ConfigurationError` if it is None.
    """
    backend: Backend[Tables] = Backend("data_analysis", tables, "query", "SqliteTables(path)")
    known = f" The tables:\n{backend.fixed.schema()}" if backend.fixed is not None else ""

    @tool(
        name="data_analysis",
        description=_DESCRIPTION + known,
        selection_rule="for figures from the user's tables",
        timeout=120,
        effect="read",
    )
    async def analyse(
        context: ToolContext, sql: Annotated[str, Field(description="One SELECT; empty for the schema")] = ""
    ) -> Any:
        """Run one query."""
        found = await backend.of(context)
        if not sql.strip():
            return await asyncio.to_thread(found.schema)
        with context.progress.begin("Computing", "table"):
            answer = await found.query(sql)
        more = {"more": f"only the first {len(answer.rows)} rows are shown"} if answer.more else {}
        return {"columns": answer.columns, "rows": answer.rows, **more}

    return analyse
