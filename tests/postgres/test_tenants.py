"""Tenants take turns while much is due, and no tenant's backlog is read."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from benchmarks.fleet.reads import reads

from concertino import OPERATOR
from concertino.storage import PostgresStore
from concertino.testing.store_suite.kit import start_tree

_HEADS = """
    INSERT INTO heads (
        run, root, state, entries, commands, stop, epoch, owner, process, lease, tries, not_before, reason, ready_at
    )
    SELECT r.number, r.number, 'running', 1, 0, false, 1, '', '', 0, 0, 0, '', {ready_at} FROM runs AS r
    WHERE NOT EXISTS (SELECT 1 FROM heads AS h WHERE h.run = r.number)
"""
_RUNS = """
    INSERT INTO runs (
        run_id, root, scope_key, agent, agent_path, conversation_id, tenant, user_id, task, started, number
    )
    SELECT {tenant} || '-' || g, number + g * 10, scope_key, agent, agent_path, conversation_id, {tenant}, user_id,
        task, started, number + g * 10
    FROM runs, generate_series({first}, {last}) AS g WHERE run_id = 'r1'
"""


async def open_store(url: str, schema: str) -> PostgresStore:
    """Return a store with a run whose copies are to be due."""
    store = await PostgresStore.open(url, schema=schema)
    await start_tree(store, seconds=1e9)
    return store


def add_runs(url: str, schema: str, first: int, last: int, tenant: str, ready_at: str = "1") -> None:
    """Add runs of tenants that are due, as a process of the version before would."""
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        connection.execute(_RUNS.format(tenant=tenant, first=first, last=last).encode())
        connection.execute(_HEADS.format(ready_at=ready_at).encode())
        connection.execute("VACUUM ANALYZE runs, heads")


async def claimed(store: PostgresStore, limit: int) -> list[str]:
    found = await store.claim_due(OPERATOR, "other", 600.0, limit=limit, agents=["supervisor", "clerk"])
    return [claim.scope.tenant for claim in found]


@pytest.mark.parametrize("limit", [1, 2, 8])
async def test_a_tenant_waits_for_few_runs_of_another(url: str, schema: str, limit: int) -> None:
    async with await open_store(url, schema) as store:
        add_runs(url, schema, 1, 2_000, "'big'")
        add_runs(url, schema, 2_001, 2_002, "'small'", "2")
        add_runs(url, schema, 2_003, 2_003, "''", "3")
        found = [tenant for _ in range(8) for tenant in await claimed(store, limit)]
        assert {tenant: min(found.count(tenant), 3) for tenant in set(found)} == {"big": 3, "small": 2, "": 1}


async def test_every_tenant_gets_its_turn_in_order(url: str, schema: str) -> None:
    async with await open_store(url, schema) as store:
        add_runs(url, schema, 1, 300, "'t' || lpad((g % 30)::text, 2, '0')", "1e6 - r.number")
        found = [tenant for _ in range(63) for tenant in await claimed(store, 1)]
        tenants = [f"t{number:02}" for number in range(30)]
        # The first, and the one after each round, is the longest due.
        assert (found[1:31], found[32:62]) == (tenants, tenants)


async def test_tenants_whose_runs_are_in_progress_hide_no_other(url: str, schema: str) -> None:
    async with await open_store(url, schema) as store:
        add_runs(url, schema, 1, 2_000, "'big'")
        add_runs(url, schema, 2_001, 2_300, "'busy' || g", "1e12")
        add_runs(url, schema, 2_301, 2_301, "'small'", "2")
        assert "small" in [tenant for _ in range(30) for tenant in await claimed(store, 2)]


async def test_a_claim_reads_as_much_of_a_long_backlog_as_of_a_short_one(url: str, schema: str) -> None:
    async def look(store: PostgresStore) -> None:
        for _ in range(8):
            assert len(await claimed(store, 8)) == 8

    async with await open_store(url, schema):
        add_runs(url, schema, 1, 200, "'big'")
        add_runs(url, schema, 201, 600, "'tenant' || g % 100")
    await reads(url, look, schema)
    few = await reads(url, look, schema)
    add_runs(url, schema, 601, 10_600, "'big'")
    add_runs(url, schema, 10_601, 20_600, "'tenant' || g % 1000")
    assert (await reads(url, look, schema)).rows <= 1.5 * few.rows


async def test_no_two_claims_take_the_same_run(url: str, schema: str) -> None:
    async with await open_store(url, schema) as one, await PostgresStore.open(url, schema=schema) as two:
        add_runs(url, schema, 1, 60, "'t' || g % 3")

        async def take(store: PostgresStore) -> list[str]:
            found = []
            while claims := await store.claim_due(OPERATOR, "other", 600.0, limit=4, agents=["supervisor"]):
                found += [claim.root_id for claim in claims]
            return found

        taken = [run_id for found in await asyncio.gather(take(one), take(two), take(one)) for run_id in found]
        assert len(taken) == len(set(taken)) == 60
