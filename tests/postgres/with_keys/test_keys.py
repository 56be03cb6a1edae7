"""Erasing discards keys: what copies of the database still have is unreadable."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from concertino import OPERATOR, Scope, TenantScope
from concertino.errors import ConfigurationError, DamagedDataError, StorageError
from concertino.messages import Media, UserMessage
from concertino.storage import (
    EventBatch,
    EventRow,
    KeyDatabase,
    KeyFile,
    PostgresStore,
    QueuedTurn,
    Schedule,
    StoredText,
)
from concertino.testing.store_suite.kit import Tree, claim_tree, operation, result_of, start_tree, wait, whole
from concertino.testing.store_suite.store_erasure import held
from concertino.wiring import open_keys, open_store
from tests.faults.proxy import proxy_to

from ..server import Server
from .conftest import MASTER

ANN, BOB = Scope("o1", "ann"), Scope("o1", "bob")
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"


@pytest.fixture
async def store(url: str, keys: Path, schema: str) -> AsyncIterator[PostgresStore]:
    """A store with keys."""
    async with await PostgresStore.open(url, schema=schema, keys=KeyFile(keys, MASTER)) as made:
        yield made


def rows_of(url: str, schema: str) -> str:
    """Return everything in the tables."""
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        tables = [row[0] for row in connection.execute(TABLES, (schema,)).fetchall()]
        return "".join(str(connection.execute(f"SELECT t::text FROM {table} AS t").fetchall()) for table in tables)


async def fill(store: PostgresStore, scope: Scope, secret: str) -> Tree:
    """Write *secret* wherever content may be."""
    number = scope.user
    await store.open_conversation(scope, f"c-{number}", "supervisor")
    tree = await start_tree(store, f"r-{number}", scope=scope, conversation_id=f"c-{number}", task=secret)
    run = f"r-{number}"
    picture = Media("image/png", data=secret.encode().hex())
    shared = [
        StoredText(id=f"{number}-1", body=secret),
        StoredText(id=f"{number}-2", body=secret, of_conversation=True),
        StoredText(id=f"{number}-3", body=secret, run_id=run),
    ]
    done = operation(f"{number}-done", run, scope=scope, state="done", outcome={"content": secret})
    asked = wait(f"{number}-w", run, root_id=run, arguments=secret, arguments_hash=f"hash {secret}", note=secret)
    messages = [whole(secret), held(secret, None), held(secret, f"kept {secret}", progress=({"x": secret},))]
    messages += [whole(UserMessage(secret, (picture,))), whole(f"for an hour {secret}", keep_seconds=3600.0)]
    await tree.append("model_answered", messages=messages, texts=shared, content={"x": secret}, operations=[done])
    await tree.append("suspended", waits=[asked])
    await store.resolve(OPERATOR, asked.key, result_of(secret, arguments=secret))
    await store.send(OPERATOR, run, "steer", secret)
    row = EventRow(run_id=run, entry=1, items=[[0, {"type": "x", "text": secret}]])
    assert await store.add_events([EventBatch(claim=tree.claim, first=1, last=1, rows=[row])]) == [None]
    await store.set_title(scope, f"c-{number}", secret)
    await store.remember(scope, f"{secret} likes tea")
    later = Schedule(id=f"s-{number}", tenant=scope.tenant, user=scope.user, agent="a", input={"message": secret})
    await store.add_schedule(scope, later)
    return tree


async def test_content_is_stored_encrypted_and_read_back(store: PostgresStore, url: str, schema: str) -> None:
    tree = await fill(store, ANN, "canary")
    await tree.end(answer="canary", error="canary")
    assert "canary" not in rows_of(url, schema)
    run = await store.run(ANN, "r-ann")
    assert run is not None and run.end is not None
    assert (run.start.task, run.end.answer, run.end.error) == ("canary", "canary", "canary")
    journal = await store.load(ANN, "r-ann")
    assert journal is not None
    assert set(journal.texts.values()) <= {"canary"}
    assert journal.entries[1].content == {"x": "canary"}
    assert [each.text for each in await store.recall(ANN, "tea")] == ["canary likes tea"]
    assert [each.input for each in await store.schedules(ANN)] == [{"message": "canary"}]
    (found,) = await store.waits(OPERATOR, open=False)
    assert found.resolution is not None
    assert (found.arguments, found.arguments_hash, found.resolution.content) == ("canary", "hash canary", "canary")


async def test_a_queued_turn_and_a_rating_are_encrypted(store: PostgresStore, url: str, schema: str) -> None:
    await fill(store, ANN, "canary")
    turn = QueuedTurn(run_id="r2", input={"message": "canary"})
    await store.queue_turn(ANN, "c-ann", turn, when="always")
    await store.open_conversation(ANN, "c-other", "supervisor")
    assert "canary" not in rows_of(url, schema)
    queued = [each for each in await store.all_turns(ANN, "c-ann") if each.state == "queued"]
    assert [each.input for each in queued] == [{"message": "canary"}]


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that the test may stop, and whose log stays."""
    made = Server()
    try:
        made.start(wal_keep_size="1GB", fsync="off")
        yield made
    finally:
        made.close()


def copy_of(server: Server, database: str) -> str:
    """Copy a database that nobody uses, and return the URL of the copy."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE copied TEMPLATE {database} STRATEGY file_copy")
    return server.url("copied")


async def test_an_old_copy_of_the_database_is_unreadable_after_an_erasure(own_server: Server, keys: Path) -> None:
    """The rows of a copy from before the erasure are there, and so is the server's log."""
    url = own_server.database()
    async with await PostgresStore.open(url, keys=KeyFile(keys, MASTER)) as store:
        for scope, secret in ((ANN, "canary-ann"), (BOB, "canary-bob")):
            await (await fill(store, scope, secret)).end(answer=secret)
    copied = copy_of(own_server, url.rpartition("/")[2])
    before = keys_in(keys)
    async with await PostgresStore.open(url, keys=KeyFile(keys, MASTER)) as store:
        assert (await store.erase(ANN)).runs == 1
        assert len(await store.messages(OPERATOR, "r-bob")) == 4
    async with await PostgresStore.open(copied, keys=KeyFile(keys, MASTER)) as old:
        runs = {run.start.run_id: run for run in await old.runs(OPERATOR)}
        assert {name: run.start.task for name, run in runs.items()} == {"r-ann": "", "r-bob": "canary-bob"}
        assert {name: run.end and run.end.answer for name, run in runs.items()} == {"r-ann": "", "r-bob": "canary-bob"}
        journal = await old.load(OPERATOR, "r-ann")
        assert journal is not None
        assert [list(entry.messages) for entry in journal.entries] == [[]] * len(journal.entries)
        assert [entry.content for entry in journal.entries if entry.erased] == [None]
        assert journal.texts == {}
        assert await old.messages(OPERATOR, "r-ann") == ()
        assert (await old.events(OPERATOR, "r-ann")).rows == ()
        assert await old.recall(ANN, "tea") == ()
        assert [each.text for each in await old.commands(OPERATOR, "r-ann")] == [""]
        (asked,) = await old.waits(OPERATOR, run_id="r-ann", open=False)
        assert asked.resolution is not None
        assert (asked.arguments, asked.note, asked.resolution.content) == ("", "", "")
        assert len(await old.messages(OPERATOR, "r-bob")) == 4
    gone = before - keys_in(keys)
    assert len(gone) > 5
    assert all(not contains(path, key) for path in keys.parent.iterdir() for key in gone)
    own_server.stop()
    files = [path for path in own_server.folder.rglob("*") if path.is_file()]
    assert any(contains(path, b"r-ann") for path in files), "the log has what is not content"
    for text in (b"canary", b"canary".hex().encode()):
        assert [path for path in files if contains(path, text)] == []


def keys_in(path: Path) -> set[bytes]:
    with sqlite3.connect(path) as connection:
        return {row[0] for row in connection.execute("SELECT key FROM keys").fetchall()}


def contains(path: Path, part: bytes) -> bool:
    return part in path.read_bytes()


async def test_keys_go_with_what_they_seal(store: PostgresStore, keys: Path) -> None:
    """Each erasure discards the keys of what it erases, and no others."""
    counts = [len(keys_in(keys))]

    async def gone() -> int:
        counts.append(len(keys_in(keys)))
        return counts[-2] - counts[-1]

    tree = await fill(store, ANN, "canary")
    other = await fill(store, BOB, "canary")
    counts.append(len(keys_in(keys)))
    await tree.end(erase_after=0)
    assert await gone() == 1, "that of what the data policy erases"
    kept = [str(each.message) for each in await store.messages(OPERATOR, "r-ann")]
    assert sum("canary" in each for each in kept) == len(kept) == 4
    assert (await store.run(OPERATOR, "r-ann")).start.task == "canary"  # type: ignore[union-attr]
    await store.delete_conversation(ANN, "c-ann")
    assert await gone() == 5, "kept, for an hour, the task, the file, the conversation"
    assert [each.text for each in await store.recall(ANN, "tea")] == ["canary likes tea"]
    await other.end()
    await store.erase(TenantScope("o1"))
    assert await gone() == 8, "content, kept, for an hour, task, file, conversation and two users"
    assert counts[-1] == 0


async def test_what_was_kept_for_a_time_goes_with_its_key(store: PostgresStore, keys: Path) -> None:
    tree = await start_tree(store)
    await tree.append(messages=[whole("for a moment", keep_seconds=1e-6), whole("stays")])
    await tree.end(keep_seconds=1e-6, answer="for a moment")
    before = len(keys_in(keys))
    assert await store.sweep(OPERATOR) == 1
    assert before - len(keys_in(keys)) == 2, "that of the time, and that of the task"
    assert [each.message for each in await store.messages(OPERATOR, "r1")] == [UserMessage("stays")]


async def test_after_an_erasure_a_user_has_new_keys(url: str, keys: Path, schema: str) -> None:
    """Also in another process, which has the old ones in memory."""
    async with (
        await PostgresStore.open(url, schema=schema, keys=KeyFile(keys)) as first,
        await PostgresStore.open(url, schema=schema, keys=KeyFile(keys)) as second,
    ):
        await first.remember(ANN, "ann likes tea")
        await second.remember(ANN, "ann likes milk")
        await first.erase(ANN)
        await second.remember(ANN, "ann likes cake")
        assert [each.text for each in await first.recall(ANN, "likes")] == ["ann likes cake"]


class Failing(KeyFile):
    """Keys that cannot be discarded at the moment."""

    fails = False

    def discard(self, ids: Sequence[str]) -> None:
        if self.fails:
            raise StorageError("the keys are elsewhere")
        super().discard(ids)


async def test_keys_that_could_not_be_discarded_are_discarded_by_a_sweep(
    url: str, keys: Path, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing(keys)
    async with await PostgresStore.open(url, schema=schema, keys=failing) as store:
        await (await fill(store, ANN, "canary")).end()
        failing.fails = True
        with caplog.at_level(logging.WARNING, "concertino"):
            await store.erase(ANN)
        assert "keys of erased content remain until the next sweep" in caplog.text
        assert keys_in(keys)
        failing.fails = False
        await store.sweep(OPERATOR)
    assert not keys_in(keys)


async def test_a_database_is_opened_with_its_own_keys_only(url: str, keys: Path, schema: str, tmp_path: Path) -> None:
    async with await PostgresStore.open(url, schema=schema, keys=KeyFile(keys, MASTER)) as store:
        await start_tree(store)
    for others in (None, KeyFile(tmp_path / "others.db")):
        with pytest.raises(ConfigurationError, match="is encrypted with the keys of another key store"):
            await PostgresStore.open(url, schema=schema, keys=others)
    async with await PostgresStore.open(url, schema=schema, keys=KeyFile(keys, b"x" * 32), read_only=True) as store:
        with pytest.raises(StorageError, match="the master key does not open the stored keys"):
            await store.runs(OPERATOR)
    with pytest.raises(ConfigurationError, match="a key has 32 bytes, this one 5"):
        KeyFile(keys, b"short")
    with pytest.raises(StorageError, match=r"cannot be used: .*; check the file and its folder"):
        KeyFile(tmp_path / "missing" / "keys.db")


async def test_keys_may_be_given_to_an_older_store(url: str, keys: Path, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        tree = await start_tree(store, "old", seconds=0.0)
        await tree.append(messages=[whole("before")])
    with pytest.raises(ConfigurationError, match="has no keys yet: open it once for writing"):
        await PostgresStore.open(url, schema=schema, keys=KeyFile(keys), read_only=True)
    async with await PostgresStore.open(url, schema=schema, keys=KeyFile(keys)) as store:
        again = await claim_tree(store, "old")
        await again.append(messages=[whole("after")])
        assert [each.message for each in await store.messages(OPERATOR, "old")] == [
            UserMessage("before"),
            UserMessage("after"),
        ]
        assert "before" in rows_of(url, schema)
        assert "after" not in rows_of(url, schema)


async def test_changed_content_is_refused(store: PostgresStore, url: str, schema: str) -> None:
    tree = await start_tree(store)
    await tree.append(messages=[whole("canary")])
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
        connection.execute("UPDATE messages SET body = overlay(body PLACING 'AAAA' FROM 60)")
    with pytest.raises(DamagedDataError, match="was changed, or encrypted with another key"):
        await store.messages(OPERATOR, "r1")


@pytest.mark.parametrize("text", ["\ufdd02abc", "\ufdd0", "a\ufdd0\x00", "\x00"])
async def test_a_text_that_looks_sealed_stays_as_it_is(store: PostgresStore, url: str, text: str) -> None:
    tree = await start_tree(store, task=text)
    await tree.append(messages=[whole(text)])
    run = await store.run(OPERATOR, "r1")
    assert run is not None
    assert run.start.task == text
    assert [each.message for each in await store.messages(OPERATOR, "r1")] == [UserMessage(text)]
    async with await PostgresStore.open(url, schema=f"plain_{hash(text) % 1000}") as plain:
        await start_tree(plain, task=text)
        assert (await plain.run(OPERATOR, "r1")).start.task == text  # type: ignore[union-attr]


async def test_keys_of_a_second_database(own_server: Server, schema: str) -> None:
    """They survive restarts of their server."""
    url, of_keys = own_server.url("postgres"), own_server.database()
    async with await PostgresStore.open(url, schema=schema, keys=KeyDatabase(of_keys, MASTER)) as store:
        tree = await start_tree(store)
        await tree.append(messages=[whole("canary")])
        own_server.stop()
        own_server.start()
        await start_tree(store, "r2", task="after")
        await tree.end()
        await store.erase(TenantScope("o1"), force=True)
        with psycopg.connect(of_keys) as connection:
            assert connection.execute("SELECT count(*) FROM concertino_keys.keys").fetchone() == (0,)
    with pytest.raises(StorageError, match=r"none at 127\.0\.0\.1 cannot be reached"):
        KeyDatabase("postgresql://127.0.0.1:1/none", patience=0.1).identity()
    with pytest.raises(ConfigurationError, match="invalid schema 'No'"):
        KeyDatabase(of_keys, schema="No")


async def test_processes_that_need_the_same_key_at_once_have_the_same(keys: Path) -> None:
    stores = [KeyFile(keys, MASTER) for _ in range(4)]
    found = await asyncio.gather(*(asyncio.to_thread(each.current, [f"{n}" for n in range(50)]) for each in stores))
    assert all(each == found[0] for each in found)
    ids = [key.id for key in found[0]]
    assert stores[0].find(ids) == {key.id: key.key for key in found[0]}
    assert sorted(stores[1].retire(["1", "2", "none"])) == sorted(ids[1:3])
    assert stores[2].current(["0", "1"])[0].id == ids[0]
    assert stores[2].current(["1"])[0].id != ids[1]
    assert len(stores[3].retire(["1"])) == 2
    for each in stores:
        each.close()
        each.close()


async def test_commands_find_the_keys_in_the_environment(
    url: str, keys: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_schema = f"{url}?options=-c%20search_path%3D{schema}"
    monkeypatch.setenv("CONCERTINO_KEYS", str(keys))
    monkeypatch.setenv("CONCERTINO_MASTER_KEY", MASTER.hex())
    async with await PostgresStore.open(url, schema=schema, keys=KeyFile(keys, MASTER)) as made:
        await start_tree(made, task="canary")
    async with await open_store(with_schema, read_only=True) as store:
        assert [run.start.task for run in await store.runs(OPERATOR)] == ["canary"]
    monkeypatch.setenv("CONCERTINO_MASTER_KEY", "secret")
    with pytest.raises(ConfigurationError, match="CONCERTINO_MASTER_KEY is not hexadecimal: use 64 digits"):
        await open_store(url)
    assert open_keys({}) is None
    database = open_keys({"CONCERTINO_KEYS": url})
    assert isinstance(database, KeyDatabase)
    database.close()


async def test_keys_behind_a_faulty_link(server: Server, keys: Path) -> None:
    """A lost answer, a cut and a silent connection are overcome: each call may be repeated."""
    async with proxy_to(server.port) as proxy:
        url = server.url("postgres", port=proxy.port)
        store = KeyDatabase(url, schema=f"faulty_{proxy.port}", patience=2)
        first = await asyncio.to_thread(store.current, ["a"])
        proxy.cut()
        assert await asyncio.to_thread(store.current, ["a"]) == first
        for lost in (1, 2, 3):
            proxy.swallows = 1
            made = await asyncio.to_thread(store.current, [f"{lost}"])
            assert (proxy.swallows, await asyncio.to_thread(store.current, [f"{lost}"])) == (0, made)
        before, proxy.frozen = proxy.connections, True
        retired = asyncio.ensure_future(asyncio.to_thread(store.retire, ["a"]))
        while proxy.connections == before and not retired.done():  # noqa: ASYNC110 - a new one is made
            await asyncio.sleep(0.01)
        proxy.frozen = False
        assert await retired == [first[0].id]
        await asyncio.to_thread(store.close)
