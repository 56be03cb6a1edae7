"""Windows of events: a tree that another process has locked does not delay the streams of the others."""

from __future__ import annotations

import asyncio

import psycopg

from concertino.runtime.event_window import EventWindow, WaitingBatch
from concertino.storage import EventBatch, PostgresStore
from concertino.testing.store_suite.kit import start_tree


async def test_a_locked_tree_does_not_delay_the_events_of_others(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        trees = [await start_tree(store, name) for name in ("r1", "r2")]
        settled = {tree.claim.root_id: asyncio.Event() for tree in trees}
        window, loop = EventWindow(store), asyncio.get_running_loop()

        def settle(batch: WaitingBatch, error: BaseException | None) -> None:
            assert error is None
            settled[batch.stored.claim.root_id].set()

        with psycopg.connect(url) as other:
            other.execute(f'SELECT 1 FROM "{schema}".heads ORDER BY run LIMIT 1 FOR UPDATE')
            for tree in trees:
                batch = WaitingBatch((), EventBatch(claim=tree.claim, first=1, last=1, rows=[]), settle)
                window.add(lambda batch=batch: batch, loop)  # type: ignore[misc]  # mypy infers no type
            await settled["r2"].wait()
            assert not settled["r1"].is_set()
            other.rollback()
            await settled["r1"].wait()
