"""Which files a store opens, which it refuses, and that it leaves those as they were."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from concertino.errors import DatabaseVersionError, StorageError
from concertino.messages import UserMessage
from concertino.storage.sqlite import SqliteStore
from concertino.storage.sqlite.schema import APPLICATION_ID, add_functions, migrations, queries, statements
from concertino.storage.types import RunEnd

CURRENT = migrations()[-1][0]

TABLES = {
    "runs": "number run_id root parent_id parent_call agent agent_path conversation_key conversation_id user_key"
    " user_id organization_id task started forked_from",
    "heads": "run root state entries commands stop epoch owner lease tries ending ended holds_for erase_at sweep_at",
    "ends": "number answer error ended lasts",
    "journal": "number run seq epoch kind step at version body erased held",
    "messages": "number run entry role tokens lasts keeps_progress progress body kept later",
    "texts": "number id user_key run_id organization_id user_id body",
    "waits": "number key run open agent_path call_id tool kind arguments arguments_hash who note opened expires",
    "answers": "number key run taken token verdict at by content arguments",
    "commands": "id run number kind by at text",
    "accounts": "name_key limited limit_tokens limit_money reserved_tokens reserved_money spent_tokens spent_money",
    "reservations": "id account settled tokens money",
    "usage": "booking id run entry agent_path provider model prompt completion cached cache_write"
    " reasoning source how cost price_version tools booked cache_write_1h",
    "memories": "number id owner_key owner text created metadata",
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


def old(path: Path, version: int) -> None:
    """A database as *version* of the schema left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        add_functions(connection)
        for number_, script in migrations():
            if number_ <= version:
                connection.executescript(script)
                connection.execute(f"PRAGMA user_version = {number_}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@pytest.mark.parametrize("before", range(CURRENT))
async def test_migrations_reach_the_schema_from_every_version(tmp_path: Path, before: int) -> None:
    path = tmp_path / "old.db"
    old(path, before)
    await made(path)
    assert shape(path) == TABLES
    assert number(path, "user_version") == CURRENT
    assert number(path, "application_id") == APPLICATION_ID


FIRST = """
INSERT INTO runs VALUES
    (3, 'r1', 'r1', NULL, NULL, 'a', 'a', 'c', 'ann', 'o', 'task', 5.0, 'completed', 'yes', NULL, 6.0),
    (4, 'r2', 'r1', 'r1', 'call', 'a', 'a/b', 'c', 'ann', 'o', '', 5.5, NULL, NULL, NULL, NULL);
INSERT INTO messages VALUES
    (1, 'r1', 0, 'user', 3, '[{"id":1}]', '{"v":1,"role":"user","text":"hello"}'),
    (2, 'r2', 0, 'user', NULL, NULL, '{"v":1,"role":"user","text":"sub"}'),
    (3, 'r1', 1, 'user', NULL, NULL, '{"v":1,"role":"user","text":"there"}');
INSERT INTO usage VALUES
    (1, 'u1', 'r2', 'r1', 'a/b', 'p', 'm', 1, 2, 0, 0, 0, 'measured', '', '0.5', 'v', '["t"]', 5.0),
    (2, 'u2', 'r1', 'r1', 'a', 'p', 'm', 1, 2, 0, 0, 0, 'measured', '', NULL, 'v', '[]', 5.0);
"""


async def test_the_content_of_the_first_schema_stays(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(FIRST)
        found = (7, "m7", "ann", "likes tea", 5.0, "{}")
        connection.execute("INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?)", found)
    async with await SqliteStore.open(path) as store:
        one, two = await store.run("r1"), await store.run("r2")
        assert one is not None
        assert two is not None
        assert one.end == RunEnd(status="completed", answer="yes", error=None, ended=6.0)
        assert (one.start.user_id, one.start.task, one.entries) == ("ann", "task", 0)
        assert (two.start.root_id, two.state, two.end and two.end.error) == ("r1", "failed", "its process was killed")
        assert [each.message for each in await store.messages("r1")] == [UserMessage("hello"), UserMessage("there")]
        assert [each.id for each in await store.usage("r1")] == ["u1", "u2"]
        assert [run.start.run_id for run in await store.runs(conversation_id="c", user_id="ann")] == ["r2", "r1"]
        assert [each.text for each in await store.recall("ann", "")] == ["likes tea"]
        assert (await store.due()).orphaned == ()
        assert (await store.erase(user_id="ann")).runs == 2
        assert [each.cost for each in await store.usage_sums([])] == [Decimal("0.5")]


async def test_a_migration_that_was_killed_half_way_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(FIRST)
    before = path.read_bytes()
    statement = "DROP TABLE old_messages;"
    code = f"""if True:
        import os, sys
        from concertino.storage.sqlite import opening
        known = opening.migrations()
        script = known[1][1].partition("{statement}")[0]
        opening.migrations = lambda: (known[0], (2, script))
        def kill(script):
            yield from plain(script)
            os._exit(9)
        plain, opening.statements = opening.statements, kill
        opening.connect(opening.Path(sys.argv[1]), 1.0)
    """
    command = [sys.executable, "-c", code, str(path)]
    done = await asyncio.to_thread(lambda: subprocess.run(command, check=False))
    assert done.returncode == 9
    assert path.read_bytes()[100:] == before[100:]
    async with await SqliteStore.open(path) as store:
        assert len(await store.messages("r1")) == 2
    assert shape(path) == TABLES


async def test_every_query_fits_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await made(path)
    with closing(sqlite3.connect(path)) as connection:
        add_functions(connection)
        for name, sql in queries().items():
            if name in ("words_copy", "words_rename"):
                continue  # of a table that is made in the same breath
            whole = sql.replace("/*conditions*/", "true").replace("/*columns*/", "").replace("/*grouping*/", "")
            bound = dict.fromkeys(re.findall(r":(\w+)", whole), 1)
            connection.execute(f"EXPLAIN {whole}", bound or [1] * whole.count("?"))


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
        patch.setattr("concertino.storage.sqlite.schema.migrations", lambda: broken)
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
