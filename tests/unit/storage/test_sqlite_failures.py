"""Locks, full disks, damage, kills: a failure is a clear error, and what was written before stays."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, Scope
from concertino.errors import StorageError
from concertino.messages import AssistantMessage, Text, ToolCall, UserMessage
from concertino.storage.sqlite import SqliteStore
from concertino.storage.sqlite.errors import explain
from concertino.storage.types import Entry, EntryMessage, RunEnd
from concertino.testing.store_suite.kit import result_of
from concertino.testing.store_suite.store_calls import calling

from .journal_writer import begin, claim, entry, kill_after, writer


async def test_a_lock_of_another_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path, busy_timeout=0.01) as store:
        await begin(store, "r1")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError, match=r"a\.db is locked by another process: end that process"):
                await store.append(entry("r1", 1))
            assert len(await store.messages(OPERATOR, "r1")) == 0
        await store.append(entry("r1", 1))
        assert len(await store.messages(OPERATOR, "r1")) == 2


async def test_a_look_for_calls_takes_no_lock_for_those_with_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path, busy_timeout=0.01) as store:
        await calling(store, "r1", "w1", "w2")
        for key in ("w1", "w2"):
            await store.resolve(OPERATOR, key, result_of("elsewhere"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert list(await store.claim_calls(OPERATOR, 60.0)) == []


async def test_two_stores_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    one, two = await SqliteStore.open(path), await SqliteStore.open(path)
    async with one, two:
        for store, run_id in ((one, "r1"), (two, "r2")):
            await begin(store, run_id)
        appends = [s.append(entry(r, n)) for n in range(1, 26) for s, r in ((one, "r1"), (two, "r2"))]
        await asyncio.gather(*appends)
        for store in (one, two):
            for run_id in ("r1", "r2"):
                assert [used.tokens.prompt for used in await store.usage(OPERATOR, run_id)] == list(range(1, 26))
                assert len(await store.messages(OPERATOR, run_id)) == 50


async def test_a_full_disk_keeps_earlier_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        await store.append(entry("r1", 1))
        limit = "PRAGMA max_page_count = 120"
        await store._connection.run(lambda connection: connection.execute(limit).fetchall())
        with pytest.raises(StorageError, match=r"a\.db cannot grow because the disk is full: free some space"):
            await store.append(entry("r1", 2, "x" * 1_000_000))
        assert len(await store.messages(OPERATOR, "r1")) == 2
        assert len(await store.usage(OPERATOR, "r1")) == 1
        await store.append(entry("r1", 2))


async def test_a_cancelled_write_that_has_started_is_completed(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        await begin(store, "r1")
        tasks = [asyncio.ensure_future(store.append(entry("r1", number))) for number in range(1, 21)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [used.tokens.prompt for used in await store.usage(OPERATOR, "r1")] == list(range(1, 21))
        assert len(await store.messages(OPERATOR, "r1")) == 40


async def test_values_that_sqlite_cannot_store_are_refused(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        await begin(store, "r1")
        with pytest.raises(StorageError, match="cannot store a value"):
            await store.append(entry("r1", 1, tokens=2**64))
        assert len(await store.messages(OPERATOR, "r1")) == len(await store.usage(OPERATOR, "r1")) == 0


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("messages", "body", "'{'"),
        ("messages", "body", "'[]'"),
        ("messages", "body", "'null'"),
        ("messages", "body", """'{"v":1,"role":"ghost"}'"""),
        ("messages", "body", """'{"v":1,"role":"user"}'"""),
        ("messages", "body", """'{"v":1,"role":"assistant"}'"""),
        ("messages", "body", """'{"v":1,"role":"assistant","parts":[3]}'"""),
        ("messages", "body", """'{"v":1,"role":"assistant","parts":[{"kind":"ghost"}]}'"""),
        ("messages", "body", """'{"v":99,"role":"user","text":"a"}'"""),
        ("messages", "body", "x'ff00'"),
        ("messages", "body", "CAST(x'ff00' AS TEXT)"),
        ("messages", "progress", "'{'"),
        ("messages", "progress", "'3'"),
        ("usage", "cost", "'much'"),
        ("usage", "tools", "'3'"),
    ],
)
async def test_a_corrupt_value_is_a_storage_error(tmp_path: Path, table: str, column: str, value: str) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        await store.append(entry("r1", 1))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE {table} SET {column} = {value}")
        for asked in (
            store.load(OPERATOR, "r1"),
            store.messages(OPERATOR, "r1") if table == "messages" else store.usage(OPERATOR, "r1"),
        ):
            with pytest.raises(StorageError):
                await asked
        await store.append(entry("r1", 2))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("kind = 'dreamt'", "has kind 'dreamt' and format 1"),
        ("version = 99", "has kind 'model_answered' and format 99"),
        ("body = '{'", "is unreadable"),
        ("body = '[]'", "is unreadable"),
        ("content = '{'", "is unreadable"),
    ],
)
async def test_an_unreadable_entry_is_named(tmp_path: Path, change: str, says: str) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        for number in (1, 2):
            await store.append(entry("r1", number))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE journal SET {change} WHERE seq = 2")
        with pytest.raises(StorageError, match=f"entry 2 of run 'r1' .*{says}"):
            await store.load(OPERATOR, "r1")


async def test_a_corrupt_message_names_its_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        await store.append(entry("r1", 1))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE messages SET body = '{'")
        with pytest.raises(StorageError, match="entry 1 of run 'r1' is unreadable"):
            await store.load(OPERATOR, "r1")


async def test_the_next_sweep_truncates_a_log_that_a_reader_blocked(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    log = tmp_path / "a.db-wal"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        await store.append(entry("r1", 1, "canary"))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM runs").fetchall()
            end = RunEnd(status="completed", answer="", error=None, ended=1.0)
            await store.append(Entry(run_id="r1", seq=2, claim=claim("r1"), kind="ended", end=end))
            await store.erase(Scope("o", "u"))
            assert b"canary" in log.read_bytes()
        assert await store.sweep(OPERATOR) == 0
        assert b"canary" not in log.read_bytes() + path.read_bytes()


async def test_a_corrupt_file_raises_storage_errors_only(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        for number in range(1, 41):
            await store.append(entry("r1", number, "y" * 500))
        await store.remember(Scope(user="ann"), "tea")
    whole = path.read_bytes()
    errors = 0
    for seed in range(40):
        rng = random.Random(seed)
        spoiled = bytearray(whole)
        for _ in range(20):
            place = rng.randrange(len(whole))
            spoiled[place : place + 64] = rng.randbytes(64)
        del spoiled[rng.randrange(len(whole) // 2, len(whole)) if seed % 3 == 0 else len(whole) :]
        path.write_bytes(spoiled)
        errors += await use(path)
    assert errors


async def use(path: Path) -> int:
    """How many of a store's methods fail with a `StorageError`; another error is not caught."""
    try:
        store = await SqliteStore.open(path, busy_timeout=0.01)
    except StorageError:
        return 1
    found: list[Any] = []
    async with store:
        for asked in (
            store.messages(OPERATOR, "r1"),
            store.usage(OPERATOR, "r1"),
            store.runs(OPERATOR),
            store.recall(Scope(user="ann"), "tea"),
            store.append(entry("r1", 41)),
            store.load(OPERATOR, "r1"),
            store.waits(OPERATOR, open=False),
            store.due(OPERATOR),
            store.sweep(OPERATOR),
            store.remember(Scope(user="ann"), "coffee"),
        ):
            found.append((await asyncio.gather(asked, return_exceptions=True))[0])
    assert all(isinstance(each, StorageError) for each in found if isinstance(each, BaseException)), found
    return sum(isinstance(each, StorageError) for each in found)


def test_every_error_names_the_file() -> None:
    path = Path("/somewhere/a.db")
    for error in (sqlite3.ProgrammingError("?"), sqlite3.OperationalError("?"), OverflowError("?")):
        assert str(path) in str(explain(error, path))


@pytest.mark.parametrize("acknowledged", [1, 2, 37])
async def test_a_killed_process_loses_nothing_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "a.db"
    with writer(path) as process:
        last = kill_after(process, acknowledged)
    async with await SqliteStore.open(path) as store:
        usage, messages = await store.usage(OPERATOR, "r1"), await store.messages(OPERATOR, "r1")
        assert len(usage) >= last
        assert [used.tokens.prompt for used in usage] == list(range(1, len(usage) + 1))
        whole = [UserMessage(f"{number}{half}x") for number in range(1, len(usage) + 1) for half in "ab"]
        assert [stored.message for stored in messages] == whole
        journal = await store.load(OPERATOR, "r1")
        assert journal is not None
        assert [each.content for each in journal.entries] == [None, *({"n": n} for n in range(1, len(usage) + 1))]
        await store.append(entry("r1", len(usage) + 1))


async def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with writer(path) as process:
        assert process.stdout is not None
        async with await SqliteStore.open(path) as store:
            await begin(store, "r2")
            for number in range(1, 31):
                await store.append(entry("r2", number))
                assert process.stdout.readline() == f"{number}\n"
            last = kill_after(process, 1)
            for run_id, least in (("r1", last), ("r2", 30)):
                booked = [used.tokens.prompt for used in await store.usage(OPERATOR, run_id)]
                assert booked == list(range(1, len(booked) + 1))
                assert len(booked) >= least
                assert len(await store.messages(OPERATOR, run_id)) == 2 * len(booked)


async def test_the_views_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    answer = AssistantMessage((Text("Let me "), ToolCall("1", "search", '{"q":"tea"}'), Text("see.")))
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        await store.append(entry("r1", 1))
        message = EntryMessage(message=answer, keep=answer)
        await store.append(Entry(run_id="r1", seq=2, claim=claim("r1"), kind="model_answered", messages=[message]))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT role, text, tool FROM transcript").fetchall()
        assert rows[1:] == [("user", "1bx", None), ("assistant", "Let me see.", 'search({"q":"tea"})')]
        totals = "SELECT agent_path, attempts, prompt, without_price, about_cost FROM usage_by_agent"
        assert connection.execute(totals).fetchall() == [("a", 1, 1, 0, 0.1)]
