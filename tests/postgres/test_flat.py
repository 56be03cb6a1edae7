"""Runs that wait cost nothing: a pass of the watchdog reads the same rows beside a thousand of them."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from benchmarks.fleet.rows import multiply
from benchmarks.fleet.waiting import Clerk

from concertino import OPERATOR, Resources, Runtime, Scope
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call

pytestmark = pytest.mark.slow


async def waiting(url: str, schema: str, users: int) -> None:
    """Let a conversation of each user wait for an approval, and end another one."""
    model = ScriptedModel(*[call("pay", euros=1), "It is Monday."] * users)
    async with (
        await PostgresStore.open(url, schema=schema) as store,
        Runtime([Clerk()], Resources(store=store, model=model)) as runtime,
    ):
        for number in range(users):
            scope = Scope(tenant="shop", user=f"user-{number}")
            for message in ("Please pay.", "Which day is it?"):
                conversation = await runtime.conversation(scope, agent="clerk")
                await (await conversation.send(message)).result()


async def rows_read(url: str, schema: str, look: Any) -> int:
    """Return the number of rows that *look* reads, by the server's own statistics."""
    with psycopg.connect(url, autocommit=True) as connection:

        def read() -> int:
            """Wait until the processes of all other connections have reported, and return the sum."""
            others = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            while connection.execute(others).fetchone() != (0,):
                pass
            connection.execute("SELECT pg_stat_clear_snapshot()")
            found = connection.execute(
                "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE schemaname = %s",
                (schema,),
            ).fetchone()
            assert found is not None
            return int(found[0])

        before = await asyncio.to_thread(read)
        async with await PostgresStore.open(url, schema=schema) as store:
            await look(store)
        return await asyncio.to_thread(read) - before


async def test_a_pass_of_the_watchdog_reads_no_run_that_waits(url: str, schema: str) -> None:
    async def look(store: PostgresStore) -> None:
        await store.due(OPERATOR, agents=["clerk"], owner="nobody")
        assert not await store.claim_due(OPERATOR, "nobody", 30.0, agents=["clerk"])
        assert not await store.due_turns(OPERATOR, agents=["clerk"])
        await store.sweep(OPERATOR)

    await waiting(url, schema, 4)
    await rows_read(url, schema, look)  # closes the turns that have ended
    few = await rows_read(url, schema, look)
    await asyncio.to_thread(multiply, url, 1_000, schema)
    assert await rows_read(url, schema, look) <= few + 4
