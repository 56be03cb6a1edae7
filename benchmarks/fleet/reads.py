"""What a look at a database reads, by the server's own statistics: counts that no load of the machine changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import psycopg

from concertino.storage import PostgresStore


class Reads(NamedTuple):
    """Rows of tables, and pages of tables and indexes."""

    rows: int
    pages: int

    def __sub__(self, other: Reads) -> Reads:
        return Reads(self.rows - other.rows, self.pages - other.pages)


_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_ROWS = "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE schemaname = %s"
_PAGES = """
    SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))
    FROM pg_statio_user_tables WHERE schemaname = %s
"""


async def reads(url: str, look: Callable[[PostgresStore], Awaitable[object]], schema: str = "concertino") -> Reads:
    """Return what *look* reads at a store that is opened for it. No other connection may stay open."""
    with psycopg.connect(url, autocommit=True) as connection:
        before = await asyncio.to_thread(_reported, connection, schema)
        async with await PostgresStore.open(url, schema=schema) as store:
            await look(store)
        return await asyncio.to_thread(_reported, connection, schema) - before


def _reported(connection: psycopg.Connection, schema: str) -> Reads:
    """Wait until the processes of all other connections have reported, and return the sums."""
    while connection.execute(_OTHERS).fetchone() != (0,):
        pass
    connection.execute("SELECT pg_stat_clear_snapshot()")
    (rows,), (pages,) = (connection.execute(query.encode(), (schema,)).fetchone() or (0,) for query in (_ROWS, _PAGES))
    return Reads(int(rows), int(pages))
