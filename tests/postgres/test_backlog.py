"""Work that no process takes: the pass of a worker of another target reads none of it, however much there is."""

from __future__ import annotations

import asyncio

import psycopg
from benchmarks.fleet.reads import reads

from concertino import OPERATOR
from concertino.storage import PostgresStore, Schedule
from concertino.testing.store_suite.kit import SCOPE, start_tree, wait

_SHIFT = 1_000
_COPIES = 2_000
_COPIED = {"runs": "number = root", "heads": "run = root", "operations": "true", "waits": "true"}
_NAMES = {"run_id", "key"}
_NUMBERS = {"number", "run", "root"}


async def test_a_pass_reads_nothing_of_the_work_of_other_targets(url: str, schema: str) -> None:
    async def look(store: PostgresStore) -> None:
        for _ in range(8):  # after five calls, the plan is made for any parameters
            due = await store.due(OPERATOR, agents=["ours"], owner="nobody")
            assert (due.ready, due.orphaned) == ((), ())
            assert await store.claim_due(OPERATOR, "nobody", 60.0, agents=["ours"]) == []
            assert list(await store.claim_calls(OPERATOR, 60.0, targets=["ours"])) == []

    async with await PostgresStore.open(url, schema=schema) as store:
        await due_work(store)
    await reads(url, look, schema)
    few = await reads(url, look, schema)
    await asyncio.to_thread(multiply, url, schema)
    assert (await reads(url, look, schema)).rows <= few.rows + 16
    async with await PostgresStore.open(url, schema=schema) as store:
        assert len(await store.claim_due(OPERATOR, "other", 60.0, limit=9, agents=["ours", "supervisor"])) == 9
        assert len(await store.claim_calls(OPERATOR, 60.0, limit=9, targets=["ours", "theirs"])) == 9
        everything = await store.claim_due(OPERATOR, "other", 60.0, limit=10 * _COPIES, agents=None)
        assert len(everything) > _COPIES - 9


async def test_work_that_a_process_of_the_version_before_leaves_is_due(url: str, schema: str) -> None:
    """The triggers name the agent and the target, since that version does not."""
    async with await PostgresStore.open(url, schema=schema) as store:
        await due_work(store)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute("UPDATE operations SET target = NULL, due_at = NULL")
            other.execute("UPDATE operations SET due_at = 1")
            other.execute("CREATE TEMP TABLE before AS SELECT * FROM heads")
            other.execute("UPDATE before SET agent = NULL")
            other.execute("DELETE FROM heads")
            other.execute("INSERT INTO heads SELECT * FROM before")
        (call,) = await store.claim_calls(OPERATOR, 60.0, targets=["theirs"])
        assert call.wait.key == "w1"
        (claim,) = await store.claim_due(OPERATOR, "other", 60.0, agents=["supervisor"])
        assert claim.root_id == "r2"


async def due_work(store: PostgresStore) -> None:
    """Leave a call that no process takes, and a run that its process has left."""
    asked = wait(kind="result", target="theirs", task="{}", who=())
    await (await start_tree(store)).append("suspended", waits=[asked])
    await store.release((await start_tree(store, "r2")).claim)


def multiply(url: str, schema: str) -> None:
    """Copy the due work often."""
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        for table, which in _COPIED.items():
            found = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
                (schema, table),
            ).fetchall()
            columns = [name for (name,) in found]
            values = [
                f"{name} || '-' || g" if name in _NAMES else f"{name} + g * {_SHIFT}" if name in _NUMBERS else name
                for name in columns
            ]
            copies = f"SELECT {', '.join(values)} FROM {table}, generate_series(1, {_COPIES}) AS g WHERE {which}"
            connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) {copies}".encode())
        connection.execute(f"VACUUM ANALYZE {', '.join(_COPIED)}".encode())


async def test_a_pass_reads_no_schedules_of_other_agents(url: str, schema: str) -> None:
    async def look(store: PostgresStore) -> None:
        for _ in range(8):
            assert (await store.due_schedules(OPERATOR, agents=["ours"]))[1] == ()

    async with await PostgresStore.open(url, schema=schema) as store:
        await store.add_schedule(SCOPE, Schedule(id="s1", tenant="o1", user="u1", agent="theirs", input={}, due_at=1.0))
    await reads(url, look, schema)
    few = await reads(url, look, schema)
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        connection.execute(
            "INSERT INTO schedules (id, scope_key, tenant, user_id, agent, body, created) "
            "SELECT id || g, scope_key, tenant, user_id, agent, body, created "
            f"FROM schedules, generate_series(1, {_COPIES}) AS g"
        )
        connection.execute(  # as the version before does
            "INSERT INTO schedule_heads (schedule, due_at) SELECT number, 1 FROM schedules WHERE id <> 's1'"
        )
        connection.execute("VACUUM ANALYZE schedules, schedule_heads")
    assert (await reads(url, look, schema)).rows <= few.rows + 16
    async with await PostgresStore.open(url, schema=schema) as store:
        for agents in (["ours", "theirs"], None):
            assert len((await store.due_schedules(OPERATOR, 9, agents))[1]) == 9
