"""DBOS with a PostgreSQL database: the workflow of `dbos_step`."""

from __future__ import annotations

from dbos import DBOS

from benchmarks.peers.dbos_step import DISTRIBUTIONS, Durable

__all__ = ["DISTRIBUTIONS", "build"]


class Postgres(Durable):
    async def open(self, path):
        DBOS(config={"name": "bench", "system_database_url": path, "log_level": "ERROR"})
        DBOS.launch()


build = Postgres
