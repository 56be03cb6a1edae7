"""The cost of a list or a sum follows its answer: no query reads all runs or the whole ledger."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, MemoryStore, Scope, SqliteStore, TenantScope
from concertino.scope import AnyScope
from concertino.storage.sql import reader
from concertino.storage.sqlite.connection import SqliteSession
from concertino.storage.sqlite.schema import connect_in_memory
from concertino.storage.sqlite.statements import queries
from concertino.testing.store_suite.kit import record, start_tree

ANN = Scope("acme", "ann")
RIVAL = Scope("rival", "ann")
SCOPES: list[AnyScope] = [ANN, TenantScope("acme"), TenantScope(""), OPERATOR]
STATES = ("running", "suspended", "dead_letter", "completed", "failed", "cancelled", "limited")
OPEN = STATES[:3]


class Recording(SqliteSession):
    """Records the statements that it executes."""

    seen: list[tuple[str, Any]]

    def execute(self, sql: str, bound: Any = (), /) -> sqlite3.Cursor:
        self.seen.append((sql, bound))
        return super().execute(sql, bound)

    def plan(self) -> str:
        """Return the plans of the recorded statements."""
        seen, self.seen = self.seen, []
        rows = [row for sql, bound in seen for row in self.execute(f"EXPLAIN QUERY PLAN {sql}", bound).fetchall()]
        return "; ".join(row[3] for row in rows)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Recording}))
        Recording.seen = []
        opened = connect_in_memory()
    assert isinstance(opened, Recording)
    opened.seen = []
    with closing(opened):
        yield opened


@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("state", STATES)
def test_a_list_of_runs_scans_nothing(connection: Recording, scope: AnyScope, state: str) -> None:
    reader.runs(connection, scope, 50, state=state)
    plan = connection.plan()
    assert "SCAN heads" not in plan
    if state in OPEN or (scope is OPERATOR and state != "completed"):
        assert "heads_by_state (state=?)" in plan
        assert not re.search(r"(SCAN|SEARCH) r USING INDEX", plan), "the runs of a scope may be many"


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_the_sum_of_a_time_reads_the_records_of_that_time(connection: Recording, scope: AnyScope) -> None:
    reader.usage_sums(connection, scope, ["model"], 1_000.0, 2_000.0)
    if scope is ANN:
        assert "SEARCH u USING INDEX usage_of_run (run=? AND rowid>? AND rowid<?)" in connection.plan()
    else:
        assert "SEARCH u USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in connection.plan()


def test_messages_are_found_by_their_entries(connection: Recording) -> None:
    connection.execute(queries()["messages_from_snapshot"], {"run": 1, "since": 90, "apart": "[2, 7]"})
    plan = connection.plan()
    assert "SEARCH m USING INDEX messages_of_entry (run=? AND entry=?)" in plan
    assert "SEARCH messages USING INDEX messages_of_entry (run=? AND entry>?)" in plan


def test_an_account_is_forgotten_by_its_index(connection: Recording) -> None:
    connection.execute(queries()["forget_reservations"], (b"account",))
    assert "INDEX reservations_of_account (account=?)" in connection.plan()


# -- the answers stay the same -----------------------------------------------------------------------------------------


async def test_runs_are_found_by_their_state_in_every_scope() -> None:
    store = MemoryStore()
    wanted: dict[str, set[tuple[str, str]]] = {}
    for number, state in enumerate([*STATES, *STATES]):
        scope = Scope("acme" if number % 2 else "rival", "ann")
        run_id = f"r{number}"
        tree = await start_tree(store, run_id, scope=scope)
        if state == "suspended":
            await tree.append("suspended")
        elif state == "dead_letter":
            await store.release(tree.claim)
            await store.postpone(scope, run_id, reason="", seconds=None)
        elif state != "running":
            await tree.end(status=state)
        wanted.setdefault(state, set()).add((scope.tenant, run_id))
    for state, found in wanted.items():
        assert {(r.start.scope.tenant, r.start.run_id) for r in await store.runs(OPERATOR, state=state)} == found
        here = {run_id for tenant, run_id in found if tenant == "acme"}
        for reader_scope in (ANN, TenantScope("acme")):
            assert {r.start.run_id for r in await store.runs(reader_scope, state=state)} == here


async def test_a_clock_that_was_set_back_hides_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    store, times = MemoryStore(), [*range(1_000_000, 1_000_400, 10)]
    times[20:30] = range(990_000, 990_100, 10)
    tree = await start_tree(store)
    for number, moment in enumerate(times):
        monkeypatch.setattr(SqliteSession, "now", staticmethod(lambda moment=moment: float(moment)))
        await tree.append(usage=[record(number)])
    for since, until in ((None, 995_000), (995_000, None), (1_000_100, 1_000_300), (990_020, 990_050), (0, 2e6)):
        kept = [each for each in times if (since or 0) <= each < (until or 2e6)]
        (total,) = await store.usage_sums(OPERATOR, [], since=since, until=until)
        assert total.attempts == len(kept)


async def test_a_file_without_the_newer_indexes_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as store:
        await start_tree(store)
    added = ("heads_by_state", "reservations_of_account")
    with closing(sqlite3.connect(path)) as connection:
        for name in added:
            connection.execute(f"DROP INDEX {name}")
    async with await SqliteStore.open(path) as store:
        assert await store.run(OPERATOR, "r1") is not None
    with closing(sqlite3.connect(path)) as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert found >= set(added)


async def test_a_file_without_the_newer_columns_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await SqliteStore.open(path)).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE consumers DROP COLUMN agents")
    async with await SqliteStore.open(path, read_only=True) as store:
        assert not (await store.due(OPERATOR)).ready
        assert not await store.claim_calls(OPERATOR, 60.0)
    for _ in range(2):
        async with await SqliteStore.open(path) as store:
            assert await store.claim_target(OPERATOR, "svc1_a", "me", 60.0, ["desk"]) == "me"
            assert not await store.claim_due(OPERATOR, "you", 60.0)


@pytest.mark.parametrize("root", OPEN)
async def test_running_sub_agents_are_found_whatever_their_root_does(root: str) -> None:
    store = MemoryStore()
    tree = await start_tree(store)
    await tree.child("child")
    if root == "suspended":
        await tree.append("suspended")
    elif root == "dead_letter":
        await store.release(tree.claim)
        await store.postpone(OPERATOR, "r1", reason="", seconds=None)
    found = {run.start.run_id for run in await store.runs(OPERATOR, state="running")}
    assert found == ({"r1", "child"} if root == "running" else {"child"})
    assert not await store.runs(RIVAL, state="running")


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("owners_of_due_turns", "turns_due"),
        ("take_due_turns", "turns_due"),
        ("turns_to_close", "turns_ended"),
        ("has_overdue", "operations_waiting"),
    ],
)
def test_a_pass_of_the_watchdog_reads_no_turn_of_a_run_that_waits(connection: Recording, name: str, index: str) -> None:
    bound = {"now": 1.0, "agent": "", "tenant": "", "agents": None, "consumer": "", "limit": 9, "until": 1.0}
    connection.execute(queries()[name], bound)
    assert f"INDEX {index}" in connection.plan()
