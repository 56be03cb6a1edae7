"""Migrations: from each version, by several processes at once, and after a failure."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from concertino import OPERATOR
from concertino.errors import DatabaseVersionError, StorageError
from concertino.storage import PostgresStore, Schedule
from concertino.storage.postgres import schema as schemas
from concertino.storage.sql.session import WriteCall
from concertino.storage.sql.turns import Queueing
from concertino.testing.store_suite.kit import SCOPE, claim_tree, record, start_tree, whole
from concertino.testing.store_suite.store_conversations import claimed_turns, opened, queued, turn

from .server import until_locked

ALL = schemas.migrations()


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose the migrations that this concertino knows."""

    def choose(*texts: str) -> None:
        monkeypatch.setattr(schemas, "migrations", lambda: texts)

    return choose


@pytest.mark.parametrize("version", range(1, len(ALL)))
async def test_rows_of_an_earlier_version_stay(url: str, schema: str, newest: Any, version: int) -> None:
    newest(*ALL[:version])
    with pytest.MonkeyPatch.context() as patch:
        if version == 1:  # the rules alone write it, without the functions
            patch.setattr("concertino.storage.postgres.single_trip._CALLS", {})
        async with await PostgresStore.open(url, schema=schema) as store:
            tree = await start_tree(store, seconds=0.0)
            await tree.append("model_answered", messages=[whole("a")], usage=[record(1)])
    newest(*ALL)
    async with await PostgresStore.open(url, schema=schema) as store:
        again = await claim_tree(store)
        await again.append(messages=[whole("b")])
        journal = await store.load(OPERATOR, "r1")
        assert journal is not None
        assert [entry.kind for entry in journal.entries] == ["started", "model_answered", "model_requested"]
        assert list(await store.usage(OPERATOR, "r1")) == [record(1)]


async def test_a_turn_that_ends_during_the_migration_is_closed(url: str, schema: str, newest: Any) -> None:
    before = next(number for number, text in enumerate(ALL) if "turns_ended" in text)
    newest(*ALL[:before])
    async with await PostgresStore.open(url, schema=schema) as store:
        await turn(await opened(store), "r1", end=False)
    newest(*ALL)
    with psycopg.connect(url, options=f"-c search_path={schema}") as other:
        other.execute("UPDATE heads SET ending = 1")  # a process of the version before ends the run
        opening = asyncio.ensure_future(PostgresStore.open(url, schema=schema))
        await until_locked(url, other.info.backend_pid)
    await (await opening).close()
    with psycopg.connect(url, options=f"-c search_path={schema}") as other:
        assert other.execute("SELECT ended FROM turns").fetchall() == [(True,)]


@pytest.mark.parametrize("ends", [False, True])
async def test_turns_that_were_queued_before_the_migration_are_claimed(
    url: str, schema: str, newest: Any, ends: bool
) -> None:
    newest(*ALL[: next(number for number, text in enumerate(ALL) if "turns_due" in text)])
    async with await PostgresStore.open(url, schema=schema) as store:
        tree = await turn(await opened(store), "r1", end=False)
        for name in ("q1", "q2"):  # in statements, as a process of that version did
            await store._connection.write(WriteCall(Queueing(SCOPE, "c1", queued(name), "busy").work))
        if ends:
            await tree.end()
        newest(*ALL)
        async with await PostgresStore.open(url, schema=schema) as newer:
            assert await claimed_turns(newer) == ["q1"] * ends
            if not ends:
                await tree.end()  # by the process of the version before
                assert await claimed_turns(newer) == ["q1"]


async def test_processes_that_start_at_once(url: str, schema: str) -> None:
    opened = await asyncio.gather(*(PostgresStore.open(url, schema=schema) for _ in range(4)))
    for number, store in enumerate(opened):
        await start_tree(store, f"r{number}")
    assert len(await opened[0].runs(OPERATOR)) == 4
    for store in opened:
        await store.close()


async def test_a_process_that_waits_for_the_migration_of_another_one_says_so(
    url: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s::int, hashtext(%s))", (schemas._LOCK, schema))
        opening = asyncio.create_task(PostgresStore.open(url, schema=schema))
        while f"another process migrates the schema {schema}" not in caplog.text:  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.01)
        assert not opening.done()
    async with await opening as store:
        await start_tree(store)


async def test_a_migration_that_fails_leaves_the_version_before(url: str, schema: str, newest: Any) -> None:
    newest(*ALL, "CREATE TABLE more (n INT); SELECT 1 / 0;")
    with pytest.raises(StorageError, match="division by zero"):
        await PostgresStore.open(url, schema=schema)
    newest(*ALL, "CREATE TABLE more (n INT);")
    async with await PostgresStore.open(url, schema=schema) as store:
        await start_tree(store)


async def test_others_go_on_while_a_migration_waits_for_a_long_transaction(
    url: str, schema: str, newest: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        tree = await start_tree(store)
        newest(*ALL, "ALTER TABLE runs ADD COLUMN more INT")
        with psycopg.connect(url, options=f"-c search_path={schema}") as reader:
            reader.execute("SELECT 1 FROM runs")  # as a backup does
            opening = asyncio.create_task(PostgresStore.open(url, schema=schema))
            waits = f"waits for transactions of process {reader.info.backend_pid} of postgres"
            while waits not in caplog.text:  # noqa: ASYNC110 - nobody tells of a line in the log
                await asyncio.sleep(0.01)
            for number in range(3):
                await tree.append(messages=[whole(str(number))])
                assert await store.run(OPERATOR, "r1") is not None
            assert not opening.done()
        async with await opening as newer:
            assert await newer.run(OPERATOR, "r1") is not None


async def test_a_migration_that_a_deadlock_ends_is_tried_again(url: str, schema: str, newest: Any) -> None:
    """As processes of the version before cause it, which work meanwhile."""
    async with await PostgresStore.open(url, schema=schema) as older:
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(f"CREATE SEQUENCE {schema}.tries")  # is not rolled back
        deadlock = "IF nextval('tries') < 4 THEN RAISE 'deadlock' USING ERRCODE = 'deadlock_detected'; END IF;"
        newest(*ALL, f"CREATE TABLE more (n INT); DO $$ BEGIN {deadlock} END $$;")
        async with await PostgresStore.open(url, schema=schema) as store:
            await start_tree(store)
        assert len(await older.runs(OPERATOR)) == 1
    with psycopg.connect(url, autocommit=True) as other:
        assert other.execute(f"SELECT version FROM {schema}.identity").fetchone() == (len(ALL) + 1,)


async def test_a_process_goes_on_after_a_newer_one_has_migrated(url: str, schema: str, newest: Any) -> None:
    async with await PostgresStore.open(url, schema=schema) as older:
        tree = await start_tree(older)
        newest(*ALL, "ALTER TABLE heads ADD COLUMN more TEXT; ALTER TABLE journal ADD COLUMN more TEXT;")
        async with await PostgresStore.open(url, schema=schema) as newer:
            await start_tree(newer, "r2")
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:  # a field that a newer version writes
            other.execute("UPDATE journal SET more = 'x', body = '{\"more\": 1}' WHERE seq = 0")
        await tree.append("model_answered", messages=[whole("a")])
        for run_id, entries in (("r1", 2), ("r2", 1)):
            journal = await older.load(OPERATOR, run_id)
            assert journal is not None
            assert journal.entries[0].body["more"] == 1
            assert len(journal.entries) == entries


async def test_what_was_prepared_before_a_migration_is_prepared_anew(url: str, schema: str, newest: Any) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        await start_tree(store)
        before = [await store.run(OPERATOR, "r1") for _ in range(20)]  # the library prepares what is repeated
        newest(*ALL, "ALTER TABLE runs ADD COLUMN later TEXT")
        async with await PostgresStore.open(url, schema=schema):
            pass
        assert await store.run(OPERATOR, "r1") == before[-1]


async def test_a_newer_schema_is_refused(url: str, schema: str, newest: Any) -> None:
    newest(*ALL, "SELECT 1;")
    await (await PostgresStore.open(url, schema=schema)).close()
    newest(*ALL)
    with pytest.raises(DatabaseVersionError, match=f"schema version {len(ALL) + 1}.*install a newer concertino"):
        await PostgresStore.open(url, schema=schema)


@pytest.mark.parametrize("version", range(1, len(ALL) + 1))
async def test_a_process_that_is_killed_in_a_migration_leaves_whole_versions(
    url: str, schema: str, newest: Any, version: int
) -> None:
    """The server ends the transaction of a connection that is cut, as it does after `kill -9` of its process."""
    newest(*ALL[: version - 1])
    if version > 1:
        async with await PostgresStore.open(url, schema=schema) as store:
            if version > 2:  # before, there are no functions
                await start_tree(store, seconds=0.0)
    newest(*ALL[: version - 1], f"{ALL[version - 1]}; SELECT pg_terminate_backend(pg_backend_pid());", *ALL[version:])
    with pytest.raises(StorageError):
        await PostgresStore.open(url, schema=schema)
    with psycopg.connect(url, autocommit=True) as other:
        if version == 1:
            assert other.execute("SELECT to_regclass(%s)", (f"{schema}.identity",)).fetchone() == (None,)
        else:
            assert other.execute(f"SELECT version FROM {schema}.identity").fetchone() == (version - 1,)
    newest(*ALL)
    async with await PostgresStore.open(url, schema=schema) as store:
        if version > 2:
            await (await claim_tree(store)).append(messages=[whole("b")])
        else:
            await start_tree(store)


@pytest.mark.parametrize("table", ["identity", "other"])
async def test_another_programs_schema_is_refused(url: str, schema: str, table: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.{table} (name TEXT)")
    with pytest.raises(DatabaseVersionError, match="tables of another program: use another schema"):
        await PostgresStore.open(url, schema=schema)


async def test_schedules_of_before_the_migration_are_due(url: str, schema: str, newest: Any) -> None:
    newest(*ALL[: next(number for number, text in enumerate(ALL) if "name_scheduled_agent" in text)])
    async with await PostgresStore.open(url, schema=schema) as older:
        made = Schedule(id="s1", tenant="o1", user="u1", agent="desk", input={}, due_at=1.0)
        await older.add_schedule(SCOPE, made)
        newest(*ALL)
        async with await PostgresStore.open(url, schema=schema) as newer:
            await older.add_schedule(SCOPE, replace(made, id="s2"))
            for agents in (["desk"], ["desk", "clerk"], None):
                assert [each.id for each in (await newer.due_schedules(OPERATOR, agents=agents))[1]] == ["s1", "s2"]
            assert (await newer.due_schedules(OPERATOR, agents=["clerk"]))[1] == ()


async def test_a_consumer_of_before_the_migration_keeps_its_target(url: str, schema: str, newest: Any) -> None:
    newest(*ALL[: next(number for number, text in enumerate(ALL) if "consumers ADD COLUMN agents" in text)])
    async with await PostgresStore.open(url, schema=schema) as store:
        for run_id, agent in (("r1", "tool:svc1_a:dig"), ("r2", "desk")):
            await store.release((await start_tree(store, run_id, agent=agent)).claim)
        with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as older:
            older.execute("INSERT INTO consumers (target, owner, lease) VALUES ('svc1_a', 'older', 1e10)")
        newest(*ALL)
        async with await PostgresStore.open(url, schema=schema) as newer:
            assert await newer.claim_target(OPERATOR, "svc1_a", "newer", 60.0, ["desk"]) == "older"
            assert [claim.root_id for claim in await newer.claim_due(OPERATOR, "newer", 60.0)] == ["r2"]
            await newer.release((await claim_tree(newer, "r1", seconds=0.0)).claim)
            await newer.leave_target(OPERATOR, "svc1_a", "older")
            assert await newer.claim_target(OPERATOR, "svc1_a", "newer", 60.0, ["desk"]) == "newer"
        # A process of the version before claims by the same function.
        with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as older:
            older.execute("UPDATE heads SET ready_at = 0, owner = '', lease = 0, tries = 0")
            claim = "SELECT claim_due('older', '', 60, 8, '[\"desk\", \"tool:svc1_a:dig\"]')"
            assert older.execute(claim).fetchone() == ([],)
