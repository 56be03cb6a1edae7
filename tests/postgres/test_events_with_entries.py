"""Events and the entry after them are one transaction, and neither fails for the other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from concertino import OPERATOR, Chat, Resources, Runtime, Scope
from concertino.errors import StaleClaimError, StorageError
from concertino.storage import EventBatch, PostgresStore
from concertino.storage.types import Entry, Head
from concertino.testing import ScriptedModel, call
from concertino.testing.store_suite.kit import Tree, start_tree, whole
from concertino.testing.store_suite.store_events import batch, read
from tests.faults.proxy import proxy_to

from .server import Server
from .test_direct import Desk
from .trips import counted_trips


async def warm(store: PostgresStore) -> Tree:
    """Return a tree with an event, after pairs that have prepared the statement."""
    tree = await start_tree(store)
    for number in (1, 2):
        await both(store, batch(tree, number), tree.entry())
        tree.next["r1"] += 1
    return tree


async def both(store: PostgresStore, added: EventBatch, entry: Entry) -> tuple[BaseException | None, Head | Exception]:
    """Add events, and an entry at once. Return the error of the former, and the head or the error of the latter."""
    adding = store.add_events([added])
    head: Head | Exception
    try:
        head = await store.append(entry)
    except StorageError as error:
        head = error
    (of_events,) = await adding
    return of_events, head


async def test_the_entries_of_a_runtime_are_stored_with_their_events(url: str, schema: str) -> None:
    model = ScriptedModel(call("look", n=1), call("look", n=2), "done")
    async with (
        await PostgresStore.open(url, schema=schema) as store,
        Runtime([Desk()], Resources(store=store, model=model), sweep=600) as runtime,
    ):
        run = await runtime.start(Chat(message="x", scope=Scope("t", "u")), "desk")
        assert (await run.result()).status == "completed"
    with psycopg.connect(url, options=f"-c search_path={schema}") as other:
        found = other.execute("SELECT xmin::text FROM journal INTERSECT SELECT xmin::text FROM events").fetchall()
    assert found  # not all: on a busy machine, a window of events may end before their entry


async def test_both_are_one_round_trip(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        with counted_trips() as trips:
            error, head = await both(store, batch(tree, 3), tree.entry(messages=[whole("a")]))
        assert len(trips) == 1  # by the event loop, or by the thread if it has just ended other work
        assert (error, isinstance(head, Head) and head.seq) == (None, 4)
        assert await read(store) == [(number, f"event {number}") for number in (1, 2, 3)]


@pytest.mark.parametrize("held", [False, True], ids=["event loop", "thread"])
async def test_refused_events_do_not_keep_the_entry(url: str, schema: str, *, held: bool) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        error, head = await busy(store, batch(tree, 9), tree.entry(messages=[whole("a")]), held=held)
        assert isinstance(error, StorageError) and "not the next" in str(error)
        assert isinstance(head, Head)
        assert len(await store.messages(OPERATOR, "r1")) == 1


@pytest.mark.parametrize("held", [False, True], ids=["event loop", "thread"])
async def test_an_entry_is_not_stored_before_its_events(url: str, schema: str, *, held: bool) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute("CREATE TABLE stored (number SERIAL, what TEXT)")
            for table in ("journal", "events"):
                other.execute(
                    f"CREATE FUNCTION note_{table}() RETURNS TRIGGER LANGUAGE plpgsql AS "
                    f"$$ BEGIN INSERT INTO stored (what) VALUES ('{table}'); RETURN NEW; END $$"
                )
                other.execute(f"CREATE TRIGGER note AFTER INSERT ON {table} EXECUTE FUNCTION note_{table}()")
            other.execute(  # so that the events are left to the rules
                "CREATE OR REPLACE FUNCTION add_events(e JSONB) RETURNS JSONB LANGUAGE plpgsql AS "
                "$$ BEGIN RETURN NULL; END $$"
            )
        error, head = await busy(store, batch(tree, 3), tree.entry(), held=held)
        assert (error, type(head)) == (None, Head)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            assert other.execute("SELECT what FROM stored ORDER BY number").fetchall() == [("events",), ("journal",)]


@pytest.mark.parametrize("held", [False, True], ids=["event loop", "thread"])
async def test_a_refused_entry_does_not_keep_the_events(url: str, schema: str, *, held: bool) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        stale = replace(tree.entry(), seq=9)
        error, head = await busy(store, batch(tree, 3), stale, held=held)
        assert (error, type(head)) == (None, StaleClaimError)
        assert (await read(store))[-1] == (3, "event 3")


@pytest.mark.parametrize("held", [False, True], ids=["event loop", "thread"])
async def test_an_entry_that_fails_does_not_keep_the_events(url: str, schema: str, *, held: bool) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute(
                "CREATE FUNCTION fail() RETURNS TRIGGER LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"
            )
            other.execute("CREATE TRIGGER fail BEFORE INSERT ON journal EXECUTE FUNCTION fail()")
        error, head = await busy(store, batch(tree, 3), tree.entry(), held=held)
        assert error is None
        assert isinstance(head, StorageError) and "no space" in str(head)
        assert (await read(store))[-1] == (3, "event 3")


async def busy(store: PostgresStore, added: EventBatch, entry: Entry, *, held: bool) -> tuple[Any, Any]:
    """Do `both`; with *held*, while a thread has the only session, so that it does them too."""
    reading = [asyncio.ensure_future(store.runs(OPERATOR)) for _ in range(3 if held else 0)]
    await asyncio.sleep(0)
    found = await both(store, added, entry)
    await asyncio.gather(*reading)
    return found


async def test_a_lost_answer_to_both(server: Server, schema: str) -> None:
    async with proxy_to(server.port) as proxy:
        store_url = server.url("postgres", port=proxy.port)
        async with await PostgresStore.open(store_url, schema=schema, sessions=1, patience=2) as store:
            tree = await warm(store)
            proxy.swallows = 1
            error, head = await both(store, batch(tree, 3), tree.entry(messages=[whole("a")]))
            assert (proxy.swallows, error, isinstance(head, Head) and head.seq) == (0, None, 4)
            assert len(await store.messages(OPERATOR, "r1")) == 1
            assert (await read(store))[-1] == (3, "event 3")


def test_events_of_an_event_loop_that_ends_at_once_are_stored(url: str, schema: str) -> None:
    async def begin() -> tuple[PostgresStore, Tree]:
        store = await PostgresStore.open(url, schema=schema)
        return store, await warm(store)

    async def check() -> None:
        await store.close()
        async with await PostgresStore.open(url, schema=schema) as other:
            assert (await read(other))[-1] == (3, "event 3")

    async def add() -> None:
        store.add_events([batch(tree, 3)])

    loop = asyncio.new_event_loop()
    store, tree = loop.run_until_complete(begin())
    loop.call_soon(loop.stop)
    adding = loop.create_task(add())  # its last pass: what it schedules is never done
    loop.run_forever()
    assert adding.done()
    loop.close()
    asyncio.run(check())
