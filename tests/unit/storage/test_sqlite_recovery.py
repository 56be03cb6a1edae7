"""Lost logs, stopped writers, read-only files, other pid namespaces, and group commit."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from concertino import OPERATOR, Scope
from concertino.errors import DatabaseVersionError, StaleClaimError, StorageError
from concertino.storage.process import process_owner
from concertino.storage.sqlite import SqliteStore
from concertino.storage.sqlite.locks import find_writer
from concertino.storage.sqlite.statements import queries
from concertino.storage.types import Budget, Claim, Entry, Reservation
from tests.policy.faults import read_only, small_disk

from .journal_writer import begin, claim, entry, kill_after, writer

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


async def filled(path: Path, entries: int = 2) -> None:
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        for number in range(1, entries + 1):
            await store.append(entry("r1", number))


def killed_with_a_log(path: Path) -> Path:
    """Leave a database whose last commits are in its write-ahead log only, and return the log."""
    with writer(path, most=5) as process:  # a writer that runs ahead of the kill could fill a small disk
        kill_after(process, 5)
    return path.with_name(path.name + "-wal")


# -- a lost write-ahead log ----------------------------------------------------------------------------------------


async def test_a_deleted_log_is_detected_on_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    killed_with_a_log(path).unlink()
    with pytest.raises(StorageError, match=r"went back in time.*a\.db-wal was deleted.*delete .*a\.db-watermark"):
        await SqliteStore.open(path)
    (tmp_path / "a.db-watermark").unlink()
    async with await SqliteStore.open(path) as store:
        assert await store.run(OPERATOR, "r1") is None


async def test_an_unmerged_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    killed_with_a_log(path)
    async with await SqliteStore.open(path) as store:
        assert len(await store.usage(OPERATOR, "r1")) >= 5


async def test_a_restored_older_copy_is_detected(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    await filled(path)
    shutil.copy(path, copy)
    async with await SqliteStore.open(path) as store:
        await store.append(entry("r1", 3))
    shutil.copy(copy, path)
    with pytest.raises(StorageError, match="went back in time: its journal ends at 3, and 4 was committed"):
        await SqliteStore.open(path)
    async with await SqliteStore.open(copy) as store:  # as a backup elsewhere it is fine
        assert len(await store.messages(OPERATOR, "r1")) == 4


async def test_a_log_deleted_under_an_open_store_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1")
        (tmp_path / "a.db-wal").unlink()
        for asked in (store.append(entry("r1", 1)), store.run(OPERATOR, "r1"), store.claim(OPERATOR, "r1", "me", 1.0)):
            with pytest.raises(StorageError, match=r"a\.db-wal was removed while the database was open"):
                await asked


async def test_a_new_database_ignores_the_watermark_of_the_last(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    path.unlink()
    await filled(path, 1)
    async with await SqliteStore.open(path) as store:
        assert len(await store.usage(OPERATOR, "r1")) == 1


@pytest.mark.parametrize("content", [b"", b"garbage", b"x y", b"\xff\xfe"])
async def test_a_corrupt_watermark_is_ignored(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    (tmp_path / "a.db-watermark").write_bytes(content)
    async with await SqliteStore.open(path) as store:
        await store.append(entry("r1", 3))


async def test_a_folder_instead_of_the_watermark_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.db-watermark").mkdir()
    await filled(tmp_path / "a.db")


# -- a stopped writer ----------------------------------------------------------------------------------------------

HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(600)
"""


@linux
@pytest.mark.parametrize("stopped", [True, False])
async def test_the_process_that_locks_the_database_is_named(tmp_path: Path, stopped: bool) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path, busy_timeout=0.05) as store:
        await begin(store, "r1")
        assert find_writer(path) is None
        with writer(path, HOLDER) as process, ExitStack() as stack:
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            says = f"locked by process {process.pid}: end that process"
            if stopped:
                os.kill(process.pid, signal.SIGSTOP)
                await asyncio.to_thread(os.waitpid, process.pid, os.WUNTRACED)
                says = f"locked by process {process.pid}, which was stopped .* `kill -CONT {process.pid}`"
            with pytest.raises(StorageError, match=says):
                await store.append(entry("r1", 1))
            assert len(await store.messages(OPERATOR, "r1")) == 0
        await store.append(entry("r1", 1))


# -- reading only --------------------------------------------------------------------------------------------------


async def check_readable(path: Path) -> None:
    async with await SqliteStore.open(path, read_only=True) as store:
        assert [run.start.run_id for run in await store.runs(OPERATOR)] == ["r1"]
        journal = await store.load(OPERATOR, "r1")
        assert journal is not None
        assert len(journal.entries) == 3
        assert list((await store.due(OPERATOR)).orphaned) == []
        assert await store.sweep(OPERATOR) == 0
        for writes in (
            store.append(entry("r1", 3)),
            store.claim(OPERATOR, "r1", "me", 1.0),
            store.send(OPERATOR, "r1", "stop"),
            store.set_budget(Scope("o", "u"), Budget(tokens=1)),
            store.erase(Scope(user="u"), force=True),
        ):
            with pytest.raises(StorageError, match="is read-only: open it without read_only"):
                await writes


async def test_a_database_is_read_without_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    before = path.read_bytes()
    await check_readable(path)
    assert path.read_bytes() == before


async def test_a_reader_sees_what_a_writer_commits(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    async with await SqliteStore.open(path) as one, await SqliteStore.open(path, read_only=True) as two:
        await one.append(entry("r1", 3))
        assert len(await two.usage(OPERATOR, "r1")) == 3


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder) as mounted:
        if not mounted:
            pytest.skip("no file system can be mounted here")
        yield folder


async def test_a_read_only_file_system(disk: Path) -> None:
    await filled(disk / "a.db")
    with read_only(disk):
        await check_readable(disk / "a.db")
        with pytest.raises(StorageError, match="read_only=True"):
            await SqliteStore.open(disk / "a.db")


async def test_a_read_only_file_system_with_an_unmerged_log(disk: Path) -> None:
    path = disk / "a.db"
    killed_with_a_log(path)
    (disk / "a.db-shm").unlink()
    with read_only(disk), pytest.raises(StorageError, match=r"a\.db-wal has changes .*copy both files"):
        await SqliteStore.open(path, read_only=True)


async def test_reading_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        await SqliteStore.open(tmp_path / "a.db", read_only=True)
    (tmp_path / "b.db").touch()
    with pytest.raises(DatabaseVersionError):
        await SqliteStore.open(tmp_path / "b.db", read_only=True)
    with closing(sqlite3.connect(tmp_path / "c.db")) as other:
        other.execute("PRAGMA user_version = 0")
        other.execute("VACUUM")
    with pytest.raises(StorageError, match="empty"):
        await SqliteStore.open(tmp_path / "c.db", read_only=True)
    with closing(sqlite3.connect(tmp_path / "d.db")) as other:
        other.execute("CREATE TABLE runs (a)")
    with pytest.raises(DatabaseVersionError, match="another program"):
        await SqliteStore.open(tmp_path / "d.db", read_only=True)


# -- another pid namespace -----------------------------------------------------------------------------------------

CLAIMER = """
import asyncio, sys
from concertino import OPERATOR
from concertino.errors import RunClaimedError
from concertino.storage.process import process_owner
from concertino.storage.sqlite import SqliteStore

async def main():
    async with await SqliteStore.open(sys.argv[1]) as store:
        print(list((await store.due(OPERATOR)).orphaned))
        try:
            claim = await store.claim(OPERATOR, "r1", process_owner(), 30)
            print("claimed, sure:", claim.sure)
        except RunClaimedError:
            print("refused")

asyncio.run(main())
"""


UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc")


def can_unshare() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run([*UNSHARE, "true"], check=False).returncode


def claim_elsewhere(path: Path, *prefix: str) -> list[str]:
    command = [*prefix, sys.executable, "-c", CLAIMER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@linux
async def test_a_live_process_in_another_pid_namespace_keeps_its_lease(tmp_path: Path) -> None:
    if not can_unshare():
        pytest.skip("a pid namespace cannot be created here")
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await begin(store, "r1", process_owner())
        for prefix in ((), UNSHARE):
            assert await asyncio.to_thread(claim_elsewhere, path, *prefix) == ["[]", "refused"]
        (mine,) = await store.runs(OPERATOR)
        short = Claim(root_id="r1", scope=Scope("o", "u"), epoch=1, owner=mine.owner, seconds=0.0)
        await store.renew(short, 0.0)
        found = await asyncio.to_thread(claim_elsewhere, path, *UNSHARE)
        assert found == ["['r1']", "claimed, sure: False"]


# -- group commit --------------------------------------------------------------------------------------------------


async def together(store: SqliteStore, entries: list[Entry]) -> tuple[list[object], list[str]]:
    """Append *entries* while the connection is busy; return the outcomes, and the statements that end transactions."""
    seen: list[str] = []
    free = threading.Event()

    def occupy(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(lambda sql: seen.append(sql) if sql in ("COMMIT", "ROLLBACK") else None)
        free.wait()

    busy = asyncio.ensure_future(store._connection.run(occupy))
    appends = [asyncio.ensure_future(store.append(each)) for each in entries]
    await asyncio.sleep(0)
    free.set()
    await busy
    return list(await asyncio.gather(*appends, return_exceptions=True)), seen


async def test_writes_that_wait_share_a_commit(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        for number in range(20):
            await begin(store, f"r{number}")
        _, seen = await together(store, [entry(f"r{number}", 1) for number in range(20)])
        assert seen == ["COMMIT"]
        for number in range(20):
            assert len(await store.messages(OPERATOR, f"r{number}")) == 2


async def test_one_of_many_fails_alone(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        for number in range(12):
            await begin(store, f"r{number}")
        await store.set_budget(Scope("o", "u"), Budget(tokens=1))
        entries = [entry(f"r{number}", 1) for number in range(12)]
        entries[3] = Entry(run_id="r3", seq=9, claim=claim("r3"), kind="model_requested")
        wanted = Reservation(id="u", tokens=2, money=None)
        entries[5] = Entry(run_id="r5", seq=1, claim=claim("r5"), kind="model_requested", reserve=wanted)
        entries[7] = entry("r7", 1, tokens=2**64)
        done, seen = await together(store, entries)
        assert seen == ["ROLLBACK", "COMMIT"]
        assert isinstance(done[3], StaleClaimError)
        assert type(done[5]).__name__ == "BudgetError"
        assert isinstance(done[7], StorageError)
        written = {run.start.run_id for run in await store.runs(OPERATOR) if run.entries == 2}
        assert written == {f"r{number}" for number in range(12)} - {"r3", "r5", "r7"}


async def test_a_failure_that_rolls_all_back_is_repeated_one_by_one(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        for number in range(8):
            await begin(store, f"r{number}")
        connection = store._connection
        await connection.run(lambda c: c.execute("PRAGMA max_page_count = 120").fetchall())
        entries = [entry(f"r{number}", 1, "x" * (10_000_000 if number == 4 else 1)) for number in range(8)]
        done, _ = await together(store, entries)
        assert [type(each).__name__ for each in done] == ["Head"] * 4 + ["StorageError"] + ["Head"] * 3
        assert [len(await store.messages(OPERATOR, f"r{number}")) for number in range(8)] == [2] * 4 + [0] + [2] * 3


async def test_a_locked_database_fails_every_waiting_write(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path, busy_timeout=0.05) as store:
        for number in range(4):
            await begin(store, f"r{number}")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            done, _ = await together(store, [entry(f"r{number}", 1) for number in range(4)])
        assert [type(each).__name__ for each in done] == ["StorageError"] * 4
        assert len({id(each) for each in done}) == 4
        await store.append(entry("r0", 1))


# -- the cost of looking for work ------------------------------------------------------------------------------------


async def test_finding_due_trees_scans_an_index(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    with closing(sqlite3.connect(path)) as connection:

        def plan(name: str) -> str:
            bound = {"now": 1.0, "agents": None, "limit": 9, "process": "", "consumer": ""}
            rows = connection.execute(f"EXPLAIN QUERY PLAN {queries()[name]}", bound).fetchall()
            return "; ".join(row[3] for row in rows)

        for name in ("ready", "due_roots"):
            assert plan(name).startswith("SEARCH h USING INDEX heads_ready (ready_at<?)")
        assert "INDEX operations_waiting" in plan("has_overdue")
        assert "SCAN heads" not in plan("processes")


async def test_starting_a_run_scans_no_other_run(tmp_path: Path) -> None:
    """The number of a run is the next one, and 100,000 runs made each start 3 ms longer."""
    path = tmp_path / "a.db"
    await filled(path)
    with closing(sqlite3.connect(path)) as connection:
        sql = queries()["begin_run"]
        bound = dict.fromkeys(re.findall(r":(\w+)", sql))
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bound).fetchall()]
    assert not [step for step in plan if "SCAN runs" in step]
    assert [step for step in plan if "SEARCH runs" in step]
