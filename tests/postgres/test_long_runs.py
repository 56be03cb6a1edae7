"""On PostgreSQL, too, resuming a long run reads what its model is shown."""

from __future__ import annotations

import pytest

from concertino.storage import PostgresStore

from ..engine.long_runs import assert_flat, counted_reads, most_read


@pytest.mark.parametrize(
    "marks",
    [(300, 700), pytest.param((200, 2_000, 20_000), marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])],
)
async def test_resuming_reads_as_much_late_as_early(url: str, schema: str, marks: tuple[int, ...]) -> None:
    with counted_reads() as reads:
        async with await PostgresStore.open(url, schema=schema) as store:
            assert_flat(await most_read(store, store, reads, marks))
