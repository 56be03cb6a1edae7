"""A plan is made once for all values, and no such plan reads a whole table of conversations."""

from __future__ import annotations

import asyncio
import re

import psycopg
import pytest
from benchmarks.fleet.rows import multiply

from concertino.storage.postgres.dialect import numbered, queries
from concertino.storage.sql.statements import limited

from .test_flat import waiting

pytestmark = pytest.mark.slow

_MANY = 1_000
"""Rows of a table from which on it is read by its indexes only."""
_WHOLE = {"running_runs"}
"""The statements that read a whole table: the list of the runs in progress, for an operator."""
_TYPED = {"add_memory_words", "renew", "set_deadline"}
"""The statements that are clear only with the types of their parameters."""


def bad_plans(connection: psycopg.Connection, kind: str) -> dict[str, list[str]]:
    """Return by statement, limited to this *kind* of scope, the large tables that its plan for all values reads whole.

    Of a `TenantScope`, those that have a statement of their own.
    """
    large = {
        name
        for (name,) in connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = current_schema::regnamespace AND reltuples >= %s",
            (_MANY,),
        )
    }
    assert large >= {"runs", "heads", "turns", "operations", "waits", "messages", "journal", "events", "usage"}
    found = {}
    for name, text in queries().items():
        conditions = "t.conversation = :conversation" if name == "turns" else "true"
        if name.endswith("_of_tenant") is not (kind == "TenantScope"):
            continue
        sql, _ = numbered(limited(text, kind).replace("/*conditions*/", conditions))
        try:
            lines = connection.execute(f"EXPLAIN (GENERIC_PLAN) {sql}".encode()).fetchall()
        except (psycopg.errors.AmbiguousParameter, psycopg.errors.DatatypeMismatch):
            assert name in _TYPED
            continue  # only the driver names the types of its parameters
        read = re.findall(r"Seq Scan on (\w+)", "\n".join(line for (line,) in lines))
        if whole := sorted(large & set(read)):
            found[name] = whole
    return found


async def test_no_statement_reads_a_whole_table(url: str, schema: str) -> None:
    await waiting(url, schema, 40)
    await asyncio.to_thread(multiply, url, 20_000, schema)
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        assert bad_plans(connection, "Scope").keys() <= _WHOLE
        for table in ("runs", "heads"):  # the rows of a single tenant are the whole table
            connection.execute(f"UPDATE {table} SET tenant = 'shop-' || root % 500 WHERE tenant = 'shop'")
        connection.execute("VACUUM ANALYZE")
        assert bad_plans(connection, "TenantScope") == {}
        connection.execute("DROP INDEX heads_open")
        assert bad_plans(connection, "TenantScope").keys() == {"open_approvals_of_tenant"}, "the plan would be seen"
