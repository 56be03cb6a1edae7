"""Row-level security: a role that does not own the tables sees one tenant, whatever it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from concertino import OPERATOR, Scope
from concertino.errors import StorageError
from concertino.storage import PostgresStore
from concertino.testing.store_suite.kit import operation, record, start_tree, wait, whole

from .server import Server

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"


@pytest.fixture
async def reader(server: Server, url: str, schema: str) -> AsyncIterator[str]:
    """The URL of a role that may read all tables, of a store with the tenants *a* and *b*."""
    role = f"reader_of_{schema}"
    async with await PostgresStore.open(url, schema=schema) as store:
        for tenant in ("a", "b"):
            scope = Scope(tenant, "u")
            await store.open_conversation(scope, f"c-{tenant}", "supervisor")
            await store.remember(scope, f"secret of {tenant}")
            await store.put_secret(scope, "login", f"secret of {tenant}, encrypted", version=None)
            tree = await start_tree(store, f"r-{tenant}", scope=scope, conversation_id=f"c-{tenant}")
            key = f"w-{tenant}"
            asked = wait(key, f"r-{tenant}", root_id=f"r-{tenant}")
            held = operation(key, f"r-{tenant}", scope=scope, state="waiting", waits_for="approval")
            await tree.append(
                "model_answered",
                messages=[whole(f"secret of {tenant}")],
                usage=[record(1, f"r-{tenant}")],
                waits=[asked],
                operations=[held],
                content={"x": f"secret of {tenant}"},
            )
            await tree.end(answer=f"secret of {tenant}")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        owner.execute(f"GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
    yield server.url("postgres", role)


def texts_of(url: str, schema: str, *before: str) -> str:
    """Return everything that a connection can read."""
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        for statement in before:
            connection.execute(statement)
        tables = [row[0] for row in connection.execute(TABLES, (schema,)).fetchall()]
        assert len(tables) > 20
        return "".join(str(connection.execute(f"SELECT t::text FROM {table} AS t").fetchall()) for table in tables)


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
        assert connection.execute("DELETE FROM messages WHERE body LIKE '%of b%'").rowcount == 0
        assert connection.execute("UPDATE runs SET tenant = 'a' WHERE tenant = 'b'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE runs SET tenant = 'b' WHERE tenant = 'a'")
        for statement in ("ALTER TABLE runs DISABLE ROW LEVEL SECURITY", "DROP POLICY own_tenant ON runs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        connection.execute("SET row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM runs")


async def test_a_store_of_one_tenant(reader: str, schema: str) -> None:
    url = f"{reader}?options=-c%20concertino_reader.tenant%3Da"
    async with await PostgresStore.open(url, schema=schema, read_only=True) as store:
        assert [run.start.run_id for run in await store.runs(OPERATOR)] == ["r-a"]
        assert await store.load(OPERATOR, "r-b") is None
        with pytest.raises(StorageError, match=r"denied the access|is read-only"):
            await start_tree(store, "r-c")
