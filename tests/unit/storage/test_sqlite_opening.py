"""Which files a store opens, which it refuses, and that it leaves those as they were."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from concertino.errors import DatabaseVersionError, StorageError
from concertino.storage.sqlite import SqliteStore
from concertino.storage.sqlite.opening import APPLICATION_ID
from concertino.storage.sqlite.queries import migrations, queries, statements

CURRENT = migrations()[-1][0]

TABLES = {
    "runs": "number run_id root_id parent_id parent_call agent agent_path conversation_id user_id"
    " organization_id task started status answer error ended",
    "messages": "number run_id position role tokens progress body",
    "usage": "booking id run_id root_id agent_path provider model prompt completion cached cache_write"
    " reasoning source how cost price_version tools booked",
    "memories": "number id owner text created metadata",
    "memory_words": "owner_key words",
    "transcript": "run_id agent_path position role text tool tokens",
    "usage_by_agent": "root_id agent_path provider model attempts prompt completion cached cache_write"
    " reasoning not_measured without_price about_cost",
}


async def made(path: Path) -> None:
    await (await SqliteStore.open(path)).close()


def shape(path: Path) -> dict[str, str]:
    """The columns of each table and view of ours."""
    with closing(sqlite3.connect(path)) as connection:
        return {name: " ".join(row[1] for row in connection.execute(f"PRAGMA table_info({name})")) for name in TABLES}


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def number(path: Path, pragma: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, CURRENT + 1))


def test_no_statement_of_a_migration_is_lost() -> None:
    for _, script in migrations():
        found = statements(script)
        assert "\n".join(found).split() == script.split()
        assert all(sqlite3.complete_statement(statement) for statement in found)


@pytest.mark.parametrize("before", range(CURRENT))
async def test_migrations_reach_the_schema_from_every_version(tmp_path: Path, before: int) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number_, script in migrations():
            if number_ <= before:
                connection.executescript(script)
                connection.execute(f"PRAGMA user_version = {number_}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    await made(path)
    assert shape(path) == TABLES
    assert number(path, "user_version") == CURRENT
    assert number(path, "application_id") == APPLICATION_ID


async def test_every_query_fits_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await made(path)
    with closing(sqlite3.connect(path)) as connection:
        for sql in queries().values():
            bound = dict.fromkeys(("owner", "match", "run_id", "root_id", "conversation_id", "limit"), 1)
            connection.execute(f"EXPLAIN {sql}", bound if ":" in sql else [1] * sql.count("?"))


async def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    await made(path)
    await made(path)
    assert number(path, "user_version") == CURRENT


async def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    broken = ((1, migrations()[0][1] + "\nCREATE TABLE runs (twice);\n"),)
    with monkeypatch.context() as patch:
        patch.setattr("concertino.storage.sqlite.opening.migrations", lambda: broken)
        with pytest.raises(StorageError, match="already exists"):
            await SqliteStore.open(path)
    assert number(path, "user_version") == 0
    assert set(shape(path).values()) == {""}
    await made(path)
    assert shape(path) == TABLES


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    await made(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {CURRENT + 7}")
    before = path.read_bytes()
    with pytest.raises(DatabaseVersionError) as caught:
        await SqliteStore.open(path)
    said = str(caught.value)
    assert str(path) in said
    assert f"version {CURRENT + 7}" in said
    assert f"up to {CURRENT}" in said
    assert "install a newer concertino" in said
    assert path.read_bytes() == before


@pytest.mark.parametrize("sql", ["CREATE TABLE runs (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"])
async def test_the_database_of_another_program_is_refused(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "foreign.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(DatabaseVersionError, match=r"foreign\.db is a SQLite database, but none of concertino"):
        await SqliteStore.open(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("content", [b"x", b"just a text file\n" * 500, bytes(8192)])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DatabaseVersionError, match=r"notes\.txt is no SQLite database.*open another path"):
        await SqliteStore.open(path)
    assert path.read_bytes() == content
    assert names(tmp_path) == [path.name]


async def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.db"
    with pytest.raises(StorageError, match=r"a\.db is missing: create .*missing"):
        await SqliteStore.open(path)
    assert not path.parent.exists()


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder"):
        await SqliteStore.open(tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a folder that nobody can write to")
async def test_a_folder_in_which_no_file_can_be_made() -> None:
    with pytest.raises(StorageError, match=r"database /proc/a\.db cannot be opened: check"):
        await SqliteStore.open("/proc/a.db")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
async def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await made(path)
    path.chmod(0o444)
    with pytest.raises(StorageError, match="cannot be written to: give this user the right"):
        await SqliteStore.open(path)


async def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    for store in stores:
        await store.remember("ann", "tea")
        await store.close()
    assert shape(path) == TABLES


async def test_opening_may_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    task = asyncio.ensure_future(SqliteStore.open(path))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await made(path)


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        pass
    with pytest.raises(StorageError, match=r"a\.db is closed"):
        await store.run("r1")


def test_importing_is_cheap() -> None:
    code = """if True:
        import sys, concertino
        before = set(sys.modules)
        import concertino.storage.sqlite
        print(*set(sys.modules) - before)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "jsonschema", "tiktoken", "openai", "anthropic", "httpx", "genai_prices"}
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}
