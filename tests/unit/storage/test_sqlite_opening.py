"""Which files a store opens, which it refuses, and that it leaves those as they were."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from concertino import OPERATOR, AnyScope, Scope, TenantScope
from concertino.errors import DatabaseVersionError, StorageError
from concertino.storage.sql.statements import kind_of, limited
from concertino.storage.sqlite import SqliteStore
from concertino.storage.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION, schema
from concertino.storage.sqlite.statements import add_functions, queries

TABLES = [
    "identity",
    "runs",
    "heads",
    "ends",
    "journal",
    "messages",
    "texts",
    "media",
    "media_of_runs",
    "operations",
    "outcomes",
    "waits",
    "answers",
    "consumers",
    "quotas",
    "quota_shares",
    "approval_rules",
    "commands",
    "accounts",
    "reservations",
    "usage",
    "event_logs",
    "events",
    "memories",
    "schedules",
    "schedule_heads",
    "secrets",
    "memory_words",
    "conversations",
    "conversation_heads",
    "turns",
    "conversation_texts",
    "turn_words",
    "transcript",
    "usage_by_agent",
]

NOBODY = 65534
"""The user without rights of its own."""


async def made(path: Path) -> None:
    await (await SqliteStore.open(path)).close()


def tables(path: Path) -> list[str]:
    """Return the tables and views of the schema that the file has."""
    with closing(sqlite3.connect(path)) as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    return [name for name in TABLES if name in found]


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def number(path: Path, pragma: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def test_no_statement_of_the_schema_is_lost() -> None:
    found = schema()
    assert all(sqlite3.complete_statement(statement) for statement in found)
    assert sum("CREATE TABLE" in statement or "CREATE V" in statement for statement in found) == len(TABLES)


async def test_a_new_database_has_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await made(path)
    assert tables(path) == TABLES
    assert number(path, "user_version") == SCHEMA_VERSION
    assert number(path, "application_id") == APPLICATION_ID
    with closing(sqlite3.connect(path)) as connection:
        assert len(connection.execute("SELECT id FROM identity").fetchall()) == 1


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_older_database_is_refused_untouched(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE runs (run_id)")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DatabaseVersionError, match=f"schema version {version}.*open another path"):
            await SqliteStore.open(path, read_only=read_only)
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.name]


async def test_every_query_fits_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await made(path)
    with closing(sqlite3.connect(path)) as connection:
        add_functions(connection)
        readers: list[AnyScope] = [Scope("t", "u"), TenantScope("t"), TenantScope(""), OPERATOR]
        for name, scope in itertools.product(queries(), readers):
            if name in ("words_copy", "words_rename"):
                continue  # of a table that is created with them
            whole = (
                limited(queries()[name], kind_of(scope))
                .replace("/*conditions*/", "true")
                .replace("/*columns*/", "")
                .replace("/*grouping*/", "")
            )
            bound = dict.fromkeys(re.findall(r":(\w+)", whole), 1)
            connection.execute(f"EXPLAIN {whole}", bound or [1] * whole.count("?"))


async def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    await made(path)
    await made(path)
    assert number(path, "user_version") == SCHEMA_VERSION


async def test_a_failing_schema_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    broken = (*schema(), "CREATE TABLE runs (twice);")
    with monkeypatch.context() as patch:
        patch.setattr("concertino.storage.sqlite.schema.schema", lambda: broken)
        with pytest.raises(StorageError, match="already exists"):
            await SqliteStore.open(path)
    assert number(path, "user_version") == 0
    assert tables(path) == []
    await made(path)
    assert tables(path) == TABLES


async def test_a_kill_during_the_creation_of_the_schema_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    code = """if True:
        import os, sys
        from pathlib import Path
        from concertino.storage.sqlite import schema
        plain = schema.schema()
        def killed():
            yield from plain[:7]
            os._exit(9)
        schema.schema = killed
        schema.connect(Path(sys.argv[1]), 1.0)
    """
    command = [sys.executable, "-c", code, str(path)]
    done = await asyncio.to_thread(lambda: subprocess.run(command, check=False))
    assert done.returncode == 9
    assert tables(path) == []
    await made(path)
    assert tables(path) == TABLES


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    await made(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 7}")
    before = path.read_bytes()
    with pytest.raises(DatabaseVersionError) as caught:
        await SqliteStore.open(path)
    said = str(caught.value)
    assert str(path) in said
    assert f"version {SCHEMA_VERSION + 7}" in said
    assert f"supports version {SCHEMA_VERSION}" in said
    assert "install a newer concertino" in said
    assert path.read_bytes() == before


@pytest.mark.parametrize("sql", ["CREATE TABLE runs (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"])
async def test_the_database_of_another_program_is_refused(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "foreign.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(DatabaseVersionError, match=r"foreign\.db is a SQLite database of another program"):
        await SqliteStore.open(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("content", [b"x", b"just a text file\n" * 500, bytes(8192)])
async def test_another_file_format_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DatabaseVersionError, match=r"notes\.txt is not a SQLite database.*open another path"):
        await SqliteStore.open(path)
    assert path.read_bytes() == content
    assert names(tmp_path) == [path.name]


async def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.db"
    with pytest.raises(StorageError, match=r"a\.db is missing: create .*missing"):
        await SqliteStore.open(path)
    assert not path.parent.exists()


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder"):
        await SqliteStore.open(tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a folder that nobody can write to")
async def test_an_unwritable_folder_is_refused() -> None:
    with pytest.raises(StorageError, match=r"database /proc/a\.db cannot be opened: check"):
        await SqliteStore.open("/proc/a.db")


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Let the permissions of files bind this process, also if it runs as root."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
async def test_an_unwritable_file_is_refused() -> None:
    with TemporaryDirectory() as folder:  # unlike `tmp_path`, not below a folder of root alone
        path = Path(folder) / "a.db"
        await made(path)
        path.chmod(0o444)
        path.parent.chmod(0o755)
        with pytest.raises(StorageError, match="is not writable: grant this user"), bound_by_permissions():
            await SqliteStore.open(path)


async def test_a_new_file_is_opened_many_times_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    for store in stores:
        await store.remember(Scope(user="ann"), "tea")
        await store.close()
    assert tables(path) == TABLES


async def test_opening_may_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    task = asyncio.ensure_future(SqliteStore.open(path))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await made(path)


async def test_a_closed_store_raises(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        pass
    with pytest.raises(StorageError, match=r"a\.db is closed"):
        await store.run(OPERATOR, "r1")


def test_importing_is_cheap() -> None:
    code = """if True:
        import sys, concertino
        assert 'sqlite3' not in sys.modules
        before = set(sys.modules)
        import concertino.storage.sqlite
        print(*set(sys.modules) - before)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "jsonschema", "tiktoken", "openai", "anthropic", "httpx", "genai_prices"}
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}
