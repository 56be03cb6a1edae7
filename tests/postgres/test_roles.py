"""Roles with the rights that docs/postgres.md lists, and with less."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from concertino import OPERATOR, AgentConfig, Budget, Resources, Runtime, Scope, TenantScope
from concertino.errors import DatabaseVersionError, StorageError
from concertino.storage import KeyDatabase, PostgresStore
from concertino.storage.postgres import schema as schemas
from concertino.testing import ScriptedModel
from concertino.testing.store_suite.kit import SCOPE, start_tree, whole

from .server import Server

CARLA = Scope("acme", "carla")
PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"


def statements(word: str) -> bytes:
    """Return the example of the page that contains *word*."""
    examples: list[str] = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (found,) = [each for each in examples if word in each]
    return found.encode()


@pytest.fixture
async def url(server: Server) -> AsyncIterator[str]:
    """The URL of a database with a schema, and with the roles of the page."""
    url = server.database()
    await (await PostgresStore.open(url)).close()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(statements("BYPASSRLS"))
        owner.execute(statements("readers"))
        yield url
        owner.execute("DROP OWNED BY chat_worker, acme_reader")
        owner.execute("DROP ROLE chat_worker, acme_reader")


async def test_a_worker_needs_no_right_to_change_the_schema(url: str) -> None:
    class Desk(AgentConfig[None]):
        name = "desk"

    as_worker, model = url.replace("postgres@", "chat_worker@"), ScriptedModel("hello")
    async with (
        await PostgresStore.open(as_worker) as store,
        Runtime([Desk()], Resources(store=store, model=model, models=lambda _: model)) as runtime,
    ):
        await store.set_budget(TenantScope("acme"), Budget(tokens=1_000_000))
        turn = await (await runtime.conversation(CARLA, agent="desk")).send("hi")
        assert [event async for _, event in turn.events()][-1].result.text == "hello"  # type: ignore[union-attr]
        assert len(await store.runs(CARLA)) == 1
        assert (await store.erase(CARLA, force=True)).runs == 1
    with psycopg.connect(as_worker, autocommit=True) as connection:
        for statement in ("DROP TABLE concertino.runs", "CREATE TABLE concertino.more ()", "CREATE SCHEMA more"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


async def test_an_owner_with_a_schema_of_its_own_needs_no_right_on_the_database(server: Server) -> None:
    url = server.database()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE ROLE chat_owner LOGIN")
        for schema in ("concertino", "concertino_keys"):
            admin.execute(f"CREATE SCHEMA {schema}; GRANT CREATE, USAGE ON SCHEMA {schema} TO chat_owner".encode())
        try:
            as_owner = url.replace("postgres@", "chat_owner@")
            async with await PostgresStore.open(as_owner, keys=KeyDatabase(as_owner, bytes(32))) as store:
                await start_tree(store)
        finally:
            admin.execute("DROP OWNED BY chat_owner; DROP ROLE chat_owner")


async def test_a_worker_needs_no_right_to_create_the_tables_of_keys(server: Server) -> None:
    url, master = server.database(), bytes(32)
    await (await PostgresStore.open(url, keys=KeyDatabase(url, master))).close()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(statements("chat_keys"))
        try:
            keys = KeyDatabase(url.replace("postgres@", "chat_keys@"), master)
            async with await PostgresStore.open(url, keys=keys) as store:
                tree = await start_tree(store)
                await tree.append(messages=[whole("hello")])
                assert (await store.erase(SCOPE, force=True)).runs == 1
        finally:
            owner.execute("DROP OWNED BY chat_keys")
            owner.execute("DROP ROLE chat_keys")


async def test_a_worker_of_a_newer_version_waits_for_the_owner(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schemas.migrations()
    monkeypatch.setattr(schemas, "migrations", lambda: (*known, "ALTER TABLE runs ADD COLUMN more TEXT;"))
    problem = f"has schema version {len(known)}, this concertino needs version {len(known) + 1}, and the role may not"
    with pytest.raises(DatabaseVersionError, match=problem):
        await PostgresStore.open(url.replace("postgres@", "chat_worker@"))
    await (await PostgresStore.open(url)).close()
    await (await PostgresStore.open(url.replace("postgres@", "chat_worker@"))).close()


async def test_a_reader_reads_its_tenant(url: str) -> None:
    async with await PostgresStore.open(url) as store:
        for tenant in ("acme", "globex"):
            await store.remember(Scope(tenant, "u"), f"a memory of {tenant}")
    with psycopg.connect(url.replace("postgres@", "acme_reader@"), autocommit=True) as connection:
        connection.execute("SET concertino_reader.tenant = 'globex'")
        assert connection.execute("SELECT text FROM concertino.memories").fetchall() == [("a memory of acme",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM concertino.memories")


async def test_a_role_without_rights_reads_which_page_to_see(server: Server, url: str) -> None:
    role, name = "has_no_rights", url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        try:
            with pytest.raises(StorageError, match=r"denied the access: grant .* docs/postgres\.md"):
                async with await PostgresStore.open(server.url(name, role)) as store:
                    await store.runs(OPERATOR)
            owner.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
            with pytest.raises(StorageError, match=r"denied the access: grant .* docs/postgres\.md"):
                await PostgresStore.open(server.url(name, role))
        finally:
            owner.execute(f"DROP ROLE {role}")
