"""Keys cost no round trips to the database, and two look-ups a run. The ceilings only fall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from concertino import OPERATOR
from concertino.storage import KeyFile, PostgresStore

from ..test_round_trips import RUN, STEP, trips_of

T = TypeVar("T")


class Counting(KeyFile):
    """Keys that count how often they are asked for."""

    asked = 0

    def _transaction(self, work: Callable[[Any], T]) -> T:
        self.asked += 1
        return super()._transaction(work)


async def test_a_run_looks_its_keys_up_twice(url: str, schema: str, keys: Path) -> None:
    counting = Counting(keys)
    async with await PostgresStore.open(url, schema=schema, sessions=1, keys=counting) as store:
        await trips_of(store, 1)
        counting.asked = 0
        assert await trips_of(store, 0) == RUN
        assert counting.asked == 2, "its own at the start, and its user's with the prompt"
        assert await trips_of(store, 5) == RUN + 5 * STEP
        assert counting.asked == 4
        for run in await store.runs(OPERATOR):
            await store.load(OPERATOR, run.start.run_id)
        assert counting.asked == 4, "they are in memory"
    again = Counting(keys)
    async with await PostgresStore.open(url, schema=schema, sessions=1, keys=again) as store:
        again.asked = 0
        (run, *_) = await store.runs(OPERATOR, limit=1)
        await store.load(OPERATOR, run.start.run_id)
        assert again.asked <= 4, "one for each key: content, kept, task, and the texts of the user"
