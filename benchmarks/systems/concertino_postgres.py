"""concertino on PostgreSQL: the agent of `concertino_sqlite`."""

from __future__ import annotations

from benchmarks.systems.concertino_sqlite import DISTRIBUTIONS, Durable
from concertino.storage import PostgresStore

__all__ = ["DISTRIBUTIONS", "build"]


class _Postgres(Durable):
    async def _open(self, url: str) -> PostgresStore:
        return await PostgresStore.open(url)


build = _Postgres
