"""Runs that wait cost nothing: a pass of the watchdog reads the same rows beside a thousand of them."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from benchmarks.fleet.reads import reads
from benchmarks.fleet.rows import multiply
from benchmarks.fleet.waiting import Clerk

from concertino import OPERATOR, Resources, Runtime, Scope
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call
from concertino.testing.store_suite.kit import SCOPE
from concertino.testing.store_suite.store_conversations import claimed_turns, opened, queued, shown, turn

pytestmark = pytest.mark.slow

_MANY = 8_000
"""Conversations. What reads fewer rows has read none of their tables whole."""


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


async def test_a_pass_of_the_watchdog_reads_no_run_that_waits(url: str, schema: str) -> None:
    async def look(store: PostgresStore) -> None:
        await store.due(OPERATOR, agents=["clerk"], owner="nobody")
        for _ in range(8):  # after five calls, the plan is made for any parameters
            assert not await store.claim_due(OPERATOR, "nobody", 30.0, agents=["clerk"])
        assert not await store.claim_turns(OPERATOR, 1.0, agents=["clerk"])
        await store.sweep(OPERATOR)

    await waiting(url, schema, 4)
    await reads(url, look, schema)  # closes the turns that have ended
    few = await reads(url, look, schema)
    await asyncio.to_thread(multiply, url, 1_000, schema)
    assert (await reads(url, look, schema)).rows <= few.rows + 4


async def test_a_wake_up_reads_little_beside_many_that_wait(url: str, schema: str) -> None:
    async def wake(store: PostgresStore) -> None:
        async with Runtime([Clerk()], Resources(store=store, model=ScriptedModel("It is paid."))) as runtime:
            scope = Scope(tenant="shop", user="user-0")
            conversation = await runtime.conversation(scope, "copy-0")
            (turn,) = await conversation.turns()
            await runtime.approve(scope, f"{turn.run_id}:1.0")
            assert (await (await conversation.turn(turn.run_id)).result()).status == "completed"

    await waiting(url, schema, 4)
    await asyncio.to_thread(multiply, url, _MANY, schema)
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        connection.execute("ANALYZE")
    assert (await reads(url, wake, schema)).rows < 2_000


async def test_a_queued_turn_reads_little_beside_many_that_wait(url: str, schema: str) -> None:
    async def turns(store: PostgresStore) -> None:
        await opened(store)
        for name in ("q1", "q2"):
            assert await store.queue_turn(SCOPE, "c1", queued(name, key=name), when="always")
        for name, before in (("q1", ""), ("q2", "q1")):
            assert await claimed_turns(store) == [name]
            await turn(store, name, before, queued=True, key=name)
        assert await shown(store) == ["q2", "q1"]
        assert (await store.events(SCOPE, "q2")).ended
        assert not await store.withdraw_turn(SCOPE, "c1", "q2")

    await waiting(url, schema, 4)
    await asyncio.to_thread(multiply, url, _MANY, schema)
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        connection.execute("ANALYZE")
    assert (await reads(url, turns, schema)).rows < _MANY
