"""Claims of turns while the key store is slow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from concertino import OPERATOR
from concertino.storage import KeyFile, PostgresStore
from concertino.testing.store_suite.kit import SCOPE
from concertino.testing.store_suite.store_conversations import opened, queued


class Slow(KeyFile):
    """Keys that are found when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.free = threading.Event(), threading.Event()

    def find(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        self.asked.set()
        self.free.wait()
        return super().find(ids)


async def test_no_turn_is_locked_while_a_claim_asks_for_its_key(url: str, schema: str, keys: Path) -> None:
    slow = Slow(keys)
    async with (
        await PostgresStore.open(url, schema=schema, keys=KeyFile(keys)) as web,
        await PostgresStore.open(url, schema=schema, keys=slow) as worker,
    ):
        await (await opened(web)).queue_turn(SCOPE, "c1", queued("q1"), when="always")
        claiming = asyncio.ensure_future(worker.claim_turns(OPERATOR, 60.0))
        try:
            await asyncio.to_thread(slow.asked.wait)
            assert await web.withdraw_turn(SCOPE, "c1", "q1")
        finally:
            slow.free.set()
        await claiming
