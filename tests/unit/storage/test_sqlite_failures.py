"""Locks, full disks, damage, kills: a failure is a clear error, and what was written before stays."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concertino.errors import StorageError
from concertino.messages import AssistantMessage, Text, ToolCall, UserMessage
from concertino.storage.port import Batch, RunStart, StoredMessage
from concertino.storage.sqlite import SqliteStore
from concertino.storage.sqlite.failures import explain
from concertino.usage import Tokens, UsageRecord


def start(run_id: str) -> RunStart:
    return RunStart(
        run_id=run_id,
        root_id=run_id,
        parent_id=None,
        parent_call=None,
        agent="a",
        agent_path="a",
        conversation_id="c",
        user_id="u",
        organization_id="o",
        task="",
        started=0.0,
    )


def batch(run_id: str, number: int, text: str = "x") -> Batch:
    """Two messages and a usage record."""
    usage = UsageRecord(
        id=f"{run_id}/{number}",
        run_id=run_id,
        agent_path="a",
        provider="p",
        model="m",
        tokens=Tokens(number),
        cost=Decimal("0.1"),
    )
    messages = [StoredMessage(message=UserMessage(f"{number}{half}{text}")) for half in "ab"]
    return Batch(run_id=run_id, messages=messages, usage=[usage])


async def test_a_lock_of_another_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path, busy_timeout=0.01) as store:
        await store.begin(start("r1"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError, match=r"a\.db is locked by another process: end what holds it"):
                await store.append(batch("r1", 1))
            assert len(await store.messages("r1")) == 0
        await store.append(batch("r1", 1))
        assert len(await store.messages("r1")) == 2


async def test_two_stores_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    one, two = await SqliteStore.open(path), await SqliteStore.open(path)
    async with one, two:
        for store, run_id in ((one, "r1"), (two, "r2")):
            await store.begin(start(run_id))
        appends = [s.append(batch(r, n)) for n in range(25) for s, r in ((one, "r1"), (two, "r2"))]
        await asyncio.gather(*appends)
        for store in (one, two):
            for run_id in ("r1", "r2"):
                assert [used.tokens.prompt for used in await store.usage(run_id)] == list(range(25))
                assert len(await store.messages(run_id)) == 50


async def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await store.begin(start("r1"))
        await store.append(batch("r1", 1))
        limit = "PRAGMA max_page_count = 60"
        await store._worker.do(lambda connection: connection.execute(limit).fetchall())
        with pytest.raises(StorageError, match=r"a\.db cannot grow, the disk is full: make room"):
            await store.append(batch("r1", 2, "x" * 1_000_000))
        assert len(await store.messages("r1")) == 2
        assert len(await store.usage("r1")) == 1
        await store.append(batch("r1", 3))


async def test_a_cancelled_write_that_has_started_is_completed(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        await store.begin(start("r1"))
        tasks = [asyncio.ensure_future(store.append(batch("r1", number))) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [used.tokens.prompt for used in await store.usage("r1")] == list(range(20))
        assert len(await store.messages("r1")) == 40


async def test_what_sqlite_cannot_hold_is_refused_whole(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        await store.begin(start("r1"))
        with pytest.raises(StorageError, match="cannot hold"):
            await store.append(batch("r1", 2**64))
        assert len(await store.messages("r1")) == len(await store.usage("r1")) == 0
        for owner in ("a\ud800", "a\udfff"):
            with pytest.raises(StorageError, match="cannot hold"):
                await store.remember(owner, "tea")
            with pytest.raises(StorageError, match="cannot hold"):
                await store.recall(owner, "")


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
async def test_a_damaged_value_is_a_storage_error(tmp_path: Path, table: str, column: str, value: str) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await store.begin(start("r1"))
        await store.append(batch("r1", 1))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE {table} SET {column} = {value}")
        with pytest.raises(StorageError):
            await (store.messages("r1") if table == "messages" else store.usage("r1"))
        await store.append(batch("r1", 2))


async def test_a_damaged_file_never_gives_another_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await store.begin(start("r1"))
        for number in range(40):
            await store.append(batch("r1", number, "y" * 500))
        await store.remember("ann", "tea")
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
            store.messages("r1"),
            store.usage("r1"),
            store.runs(),
            store.recall("ann", "tea"),
            store.append(batch("r1", 99)),
            store.remember("ann", "coffee"),
        ):
            found.append((await asyncio.gather(asked, return_exceptions=True))[0])
    assert all(isinstance(each, StorageError) for each in found if isinstance(each, BaseException)), found
    return sum(isinstance(each, StorageError) for each in found)


def test_every_error_names_the_file() -> None:
    path = Path("/somewhere/a.db")
    for error in (sqlite3.ProgrammingError("?"), sqlite3.OperationalError("?"), OverflowError("?")):
        assert str(path) in str(explain(error, path))


WRITER = """
import asyncio, sys
sys.path[:0] = sys.argv[2:]
from test_sqlite_failures import batch, start
from concertino.storage.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await store.begin(start("r1"))
    number = 0
    while True:
        await store.append(batch("r1", number))
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def kill_after(process: subprocess.Popen[str], acknowledged: int) -> int:
    """Kill a writing process after so many of its appends; the number of the last that it acknowledged."""
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    return max(int(line) for line in said if line.endswith("\n"))


def writer(path: Path) -> subprocess.Popen[str]:
    """Another process that appends to run r1 until it is killed."""
    command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("acknowledged", [1, 2, 37])
async def test_a_killed_process_loses_nothing_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "a.db"
    with writer(path) as process:
        last = kill_after(process, acknowledged)
    async with await SqliteStore.open(path) as store:
        usage, messages = await store.usage("r1"), await store.messages("r1")
        assert len(usage) > last
        assert [used.tokens.prompt for used in usage] == list(range(len(usage)))
        whole = [UserMessage(f"{number}{half}x") for number in range(len(usage)) for half in "ab"]
        assert [stored.message for stored in messages] == whole
        await store.append(batch("r1", len(usage)))


async def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with writer(path) as process:
        assert process.stdout is not None
        async with await SqliteStore.open(path) as store:
            await store.begin(start("r2"))
            for number in range(30):
                await store.append(batch("r2", number))
                assert process.stdout.readline() == f"{number}\n"
            last = kill_after(process, 1)
            for run_id, least in (("r1", last + 1), ("r2", 30)):
                booked = [used.tokens.prompt for used in await store.usage(run_id)]
                assert booked == list(range(len(booked)))
                assert len(booked) >= least
                assert len(await store.messages(run_id)) == 2 * len(booked)


async def test_the_views_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    answer = AssistantMessage((Text("Let me "), ToolCall("1", "search", '{"q":"tea"}'), Text("see.")))
    async with await SqliteStore.open(path) as store:
        await store.begin(start("r1"))
        await store.append(batch("r1", 1))
        await store.append(Batch(run_id="r1", messages=[StoredMessage(message=answer)]))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT role, text, tool FROM transcript").fetchall()
        assert rows[1:] == [("user", "1bx", None), ("assistant", "Let me see.", 'search({"q":"tea"})')]
        totals = "SELECT agent_path, attempts, prompt, without_price, about_cost FROM usage_by_agent"
        assert connection.execute(totals).fetchall() == [("a", 1, 1, 0, 0.1)]
