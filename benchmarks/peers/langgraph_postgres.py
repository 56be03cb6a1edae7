"""langgraph with its PostgreSQL saver and a pool of connections: the graph of `langgraph_node`."""

from __future__ import annotations

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.langgraph_node import Node

DISTRIBUTIONS = ("langgraph", "langgraph-checkpoint-postgres")


class Postgres(Node):
    async def open(self, path):
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool = AsyncConnectionPool(path, kwargs=options, open=False, max_size=8)
        saver = AsyncPostgresSaver(await self.opened.enter_async_context(pool))
        await saver.setup()
        self.graph = self.compile(saver)


build = Postgres
