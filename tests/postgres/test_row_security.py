"""Row-level security: a role that does not own the tables sees one tenant, whatever it asks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator

import psycopg
import pytest

from concertino import OPERATOR, Budget, Scope, TenantScope
from concertino.errors import StorageError
from concertino.messages import Media, UserMessage
from concertino.storage import PostgresStore, QueuedTurn, QuotaDemand, Reservation, StoredText
from concertino.testing.store_suite.kit import operation, record, result_of, start_tree, wait, whole
from concertino.testing.store_suite.store_conversations import turn
from concertino.testing.store_suite.store_events import add, batch, row
from concertino.testing.store_suite.store_schedules import daily

from .server import Server

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"


async def fill(store: PostgresStore, tenant: str) -> None:
    """Give *tenant* rows in all tables."""
    scope, secret = Scope(tenant, "u"), f"secret of {tenant}"
    await store.remember(scope, secret)
    await store.put_secret(scope, "login", f"{secret}, encrypted", version=None)
    await store.add_schedule(scope, daily(secret, scope))
    await store.set_budget(TenantScope(tenant), Budget(tokens=10_000))
    await store.draw_quota(OPERATOR, QuotaDemand(key=secret, owner=secret, rates=(1.0, None)))
    await store.claim_target(OPERATOR, f"svc1_{tenant}", secret, 60.0)
    conversation = f"c-{tenant}"
    await store.open_conversation(scope, conversation, "supervisor")
    await turn(store, f"t-{tenant}", scope=scope, conversation_id=conversation)
    await store.claim_turns(OPERATOR, 60.0)  # has the words of the turn that has ended
    await store.set_title(scope, conversation, secret)
    await store.queue_turn(scope, conversation, QueuedTurn(run_id=f"q-{tenant}", input={"message": secret}))
    media = Media("image/png", b64encode(secret.encode()).decode())
    tree = await start_tree(store, f"r-{tenant}", scope=scope)
    asked = wait(f"w-{tenant}", f"r-{tenant}", root_id=f"r-{tenant}")
    await tree.append(
        "model_answered",
        messages=[whole(UserMessage(secret, (media,)))],
        texts=[StoredText(id=secret, body=secret)],
        usage=[record(1, f"r-{tenant}")],
        waits=[asked],
        content={"x": secret},
        reserve=Reservation(id=secret, tokens=10, money=None),
    )
    await add(store, batch(tree, 1, row(secret)))
    await store.send(scope, f"r-{tenant}", "steer", secret)
    await store.resolve(scope, asked.key, result_of(secret, verdict="approved", remember="always"))
    await tree.append(
        "usage_booked",
        operations=[operation(asked.key, f"r-{tenant}", scope=scope, state="unknown", outcome={"x": secret})],
    )
    other = await start_tree(store, f"s-{tenant}", scope=scope)
    await other.append(reserve=Reservation(id=f"{secret}, leased", tokens=10, money=None))
    ended = await start_tree(store, f"e-{tenant}", scope=scope)
    await ended.end(answer=secret)


@pytest.fixture
async def reader(server: Server, url: str, schema: str) -> AsyncIterator[str]:
    """The URL of a role that may read all tables, of a store with the tenants *a* and *b*."""
    role = f"reader_of_{schema}"
    async with await PostgresStore.open(url, schema=schema) as store:
        for tenant in ("a", "b"):
            await fill(store, tenant)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        owner.execute(f"GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
        owner.execute(f"INSERT INTO {schema}.readers VALUES ('another role', 'b')")
    yield server.url("postgres", role)


def texts_of(url: str, schema: str, *before: str) -> str:
    """Return everything that a connection can read."""
    return str(list(rows_of(url, schema, *before).values()))


def rows_of(url: str, schema: str, *before: str) -> dict[str, list[str]]:
    """Return the rows of each table that a connection can read."""
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        for statement in before:
            connection.execute(statement)
        tables = [row[0] for row in connection.execute(TABLES, (schema,)).fetchall()]
        assert len(tables) > 20
        rows = {table: connection.execute(f"SELECT t::text FROM {table} AS t").fetchall() for table in tables}
        return {table: sorted(text for (text,) in found) for table, found in rows.items()}


async def test_every_table_has_rows_and_is_secured(reader: str, url: str, schema: str) -> None:
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as owner:
        tables = {row[0] for row in owner.execute(TABLES, (schema,)).fetchall()}
        secured = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relrowsecurity"
        assert {row[0] for row in owner.execute(secured, (schema,)).fetchall()} == tables
        empty = {each for each in tables if owner.execute(f"SELECT 1 FROM {each}").fetchone() is None}
    assert empty == {"discarded_keys"}, "a table that is empty here proves nothing"


async def test_a_connection_without_a_tenant_reads_nothing(reader: str, schema: str) -> None:
    found = texts_of(reader, schema)
    assert "secret" not in found
    assert "r-a" not in found


async def test_a_connection_of_a_tenant_reads_its_rows_alone(reader: str, schema: str) -> None:
    found = texts_of(reader, schema, "SET concertino_reader.tenant = 'a'")
    assert found.count("secret of a") >= 5
    assert "secret of a, encrypted" in found
    assert "secret of b" not in found
    assert "r-b" not in found


async def test_a_hostile_connection(reader: str, schema: str) -> None:
    own = "SET concertino_reader.tenant = 'a'"
    with psycopg.connect(reader, options=f"-c search_path={schema}", autocommit=True) as connection:
        connection.execute(own)
        assert connection.execute("UPDATE runs SET tenant = 'a' WHERE tenant = 'b'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE runs SET tenant = 'b' WHERE tenant = 'a'")
        for statement in ("ALTER TABLE runs DISABLE ROW LEVEL SECURITY", "DROP POLICY own_tenant ON runs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        connection.execute("SET row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM runs")


async def test_a_role_that_is_bound_to_a_tenant_cannot_choose_another(reader: str, url: str, schema: str) -> None:
    """It may run any SQL, and its session names another tenant."""
    role = f"reader_of_{schema}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"INSERT INTO {schema}.readers VALUES ('{role}', 'a')")
    for before in ((), ("SET concertino_reader.tenant = 'b'",), ("SET concertino_reader.tenant = 'a'",)):
        found = texts_of(reader, schema, *before)
        assert found.count("secret of a") >= 5
        assert "secret of b" not in found
        assert "r-b" not in found
    with psycopg.connect(reader, options=f"-c search_path={schema}", autocommit=True) as connection:
        assert connection.execute("SELECT * FROM readers").fetchall() == []
        assert connection.execute("UPDATE readers SET tenant = 'b'").rowcount == 0
        assert connection.execute("DELETE FROM readers").rowcount == 0
        for statement in (
            f"ALTER ROLE {role} SET concertino_reader.tenant = 'b'",
            f"INSERT INTO readers VALUES ('{role}', 'b')",
            "CREATE OR REPLACE FUNCTION is_own(tenant TEXT) RETURNS BOOLEAN LANGUAGE sql AS 'SELECT true'",
            "SET SESSION AUTHORIZATION postgres",
            "SET ROLE postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


async def test_tenants_have_no_row_in_common(reader: str, schema: str) -> None:
    of_a, of_b = (rows_of(reader, schema, f"SET concertino_reader.tenant = '{tenant}'") for tenant in ("a", "b"))
    for table in of_a.keys() - {"identity"}:
        assert not set(of_a[table]) & set(of_b[table]), table


async def test_a_hostile_connection_deletes_nothing_of_others(reader: str, url: str, schema: str) -> None:
    """Each table on its own: other rows decide who may see a row."""
    every = {name: len(rows) for name, rows in rows_of(url, schema).items()}
    own = {name: len(rows) for name, rows in rows_of(reader, schema, "SET concertino_reader.tenant = 'a'").items()}
    with psycopg.connect(reader, options=f"-c search_path={schema}") as connection:
        for table in every.keys() - {"identity"}:
            connection.execute("SET concertino_reader.tenant = 'a'")
            assert connection.execute(f"DELETE FROM {table}").rowcount == own[table] < every[table] or not every[table]
            connection.rollback()


async def test_a_store_of_one_tenant(reader: str, schema: str) -> None:
    url = f"{reader}?options=-c%20concertino_reader.tenant%3Da"
    async with await PostgresStore.open(url, schema=schema, read_only=True) as store:
        assert sorted(run.start.run_id for run in await store.runs(OPERATOR)) == ["e-a", "r-a", "s-a", "t-a"]
        assert await store.load(OPERATOR, "r-b") is None
        with pytest.raises(StorageError, match=r"denied the access|is read-only"):
            await start_tree(store, "r-c")
