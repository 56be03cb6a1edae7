"""Calls that the event loop sends itself: no thread takes part, and none is lost or done twice."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import psycopg
import pytest

from concertino import OPERATOR, AgentConfig, Chat, Resources, Scope, ToolOrchestrator, tool
from concertino.errors import StaleClaimError, StorageError
from concertino.messages import UserMessage
from concertino.storage import PostgresStore
from concertino.storage.postgres.direct import Lane
from concertino.testing import ScriptedModel, call
from concertino.testing.store_suite.kit import Tree, record, start_tree, whole
from tests.faults.proxy import Proxy, proxy_to

from .server import Server, until_locked
from .trips import counted_trips


@contextmanager
def counted_handovers() -> Iterator[list[object]]:
    """Collect an item for each time that a thread is given something to do."""
    found: list[object] = []
    gives = Lane.give

    def give(self: Lane, strand: Any) -> None:
        found.append(strand)
        gives(self, strand)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "give", give)
        yield found


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    """A proxy to the shared server."""
    async with proxy_to(server.port) as made:
        yield made


@tool(effect="read")
async def look(n: int) -> str:
    """Look up a number."""
    return f"found {n}"


class Desk(AgentConfig):
    name = "desk"
    tools = (look,)


async def texts(store: PostgresStore, run_id: str = "r1") -> list[str]:
    """Return the texts of a run's messages."""
    found = [each.message for each in await store.messages(OPERATOR, run_id)]
    return [message.text for message in found if isinstance(message, UserMessage)]


async def warm(store: PostgresStore) -> Tree:
    """Return a tree after appends that have prepared the statement."""
    tree = await start_tree(store)
    for _ in range(3):
        await tree.append()
    return tree


async def test_a_run_needs_no_thread(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        for steps in (1, 9):  # the first run prepares the statements
            model = ScriptedModel(*(call("look", n=n) for n in range(steps)), "done")
            with counted_handovers() as handovers:
                chat = Chat(model=model, message="x", scope=Scope("t", "u"))
                result = await ToolOrchestrator(chat, Desk(), resources=Resources(store=store)).run()
            assert result.status == "completed"
        assert handovers == []


async def test_an_append_whose_answer_is_lost_is_written_once(server: Server, proxy: Proxy, schema: str) -> None:
    store_url = server.url("postgres", port=proxy.port)
    async with await PostgresStore.open(store_url, schema=schema, sessions=1, patience=2) as store:
        tree = await warm(store)
        proxy.swallows = 1
        head = await tree.append(messages=[whole("a")], usage=[record(1)])
        assert (proxy.swallows, head.seq) == (0, 5)
        assert len(await store.messages(OPERATOR, "r1")) == 1
        await tree.append(messages=[whole("b")])


async def test_a_silent_link_is_given_up(server: Server, proxy: Proxy, schema: str) -> None:
    store_url = server.url("postgres", port=proxy.port)
    async with await PostgresStore.open(store_url, schema=schema, sessions=1, patience=0.5) as store:
        tree = await warm(store)
        proxy.half_open()
        assert (await tree.append(messages=[whole("a")])).seq == 5
        assert len(await store.messages(OPERATOR, "r1")) == 1


async def test_a_connection_that_the_server_closes_while_it_is_idle(
    url: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with await PostgresStore.open(f"{url}?application_name={schema}", schema=schema, sessions=1) as store:
        tree = await warm(store)
        for passes in (0, 9):  # with passes of the event loop, it notices before the next call
            with psycopg.connect(url, autocommit=True) as other:
                ended = other.execute(
                    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = %s",
                    (schema,),
                ).fetchall()
            assert ended == [(True,)]
            for _ in range(passes):
                await asyncio.sleep(0)
            await tree.append(messages=[whole("a")])
            await tree.append(messages=[whole("b")])
        assert len(await store.messages(OPERATOR, "r1")) == 4
    assert caplog.messages == []  # such as that of a callback's error


async def test_a_rollback_forgets_prepared_statements_for_one_call_only(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        with pytest.raises(StaleClaimError):
            await store.append(replace(tree.entry(), claim=replace(tree.claim, epoch=9)))
        for _ in range(2):
            await tree.append()
        with counted_trips() as trips:
            await tree.append()
        assert len(trips) == 1


async def test_an_error_that_a_repetition_cannot_mend_is_raised_at_once(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute(
                "CREATE FUNCTION fail() RETURNS TRIGGER LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"
            )
            other.execute("CREATE TRIGGER fail BEFORE UPDATE ON heads EXECUTE FUNCTION fail()")
        with counted_trips() as trips, pytest.raises(StorageError, match=r"disk .* is full.*\(53100: no space"):
            await tree.append()
        assert len(trips) == 1


async def test_a_text_that_cannot_be_encoded(url: str, schema: str, caplog: pytest.LogCaptureFixture) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree, kind = await start_tree(store), cast("Any", "\ud800")
        for _ in range(2):  # before the statement is prepared, and after
            with pytest.raises(StorageError, match="cannot store a value, and wrote nothing"):
                await tree.append(kind)
            await tree.append()
    assert caplog.messages == []


async def test_a_value_beyond_the_buffers_of_the_socket(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await warm(store)
        text = "x" * 20_000_000
        with counted_handovers() as handovers:
            await tree.append(messages=[whole(text)])
        assert handovers == []
        assert await texts(store) == [text]


async def test_many_trees_share_two_sessions(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=2) as store:
        trees = [await start_tree(store, f"r{number}") for number in range(40)]

        async def write(tree: Tree) -> None:
            for number in range(5):
                await tree.append(messages=[whole(str(number))])
                await store.run(OPERATOR, tree.claim.root_id)

        await asyncio.gather(*map(write, trees))
        for tree in trees:
            assert await texts(store, tree.claim.root_id) == ["0", "1", "2", "3", "4"]


def test_a_call_of_an_event_loop_that_has_ended_is_done_by_a_thread(url: str, schema: str) -> None:
    async def begin() -> tuple[PostgresStore, Tree]:
        store = await PostgresStore.open(url, schema=schema, sessions=2)
        tree = await warm(store)
        held.execute("SELECT 1 FROM heads FOR UPDATE")
        appended = asyncio.ensure_future(tree.append(messages=[whole("a")]))
        await until_locked(url, held.info.backend_pid)
        assert not appended.done()
        return store, tree

    async def go_on(store: PostgresStore, tree: Tree) -> None:
        reading = asyncio.ensure_future(store.runs(OPERATOR))
        await asyncio.sleep(0)
        held.rollback()
        await reading
        tree.next["r1"] = 5
        await tree.append(messages=[whole("b")])
        assert await texts(store) == ["a", "b"]
        await store.close()

    with psycopg.connect(url, options=f"-c search_path={schema}") as held:
        store, tree = asyncio.run(begin())
        asyncio.run(go_on(store, tree))


def test_event_loops_of_several_threads_share_a_session(url: str, schema: str) -> None:
    store = asyncio.run(PostgresStore.open(url, schema=schema, sessions=1))

    async def write(run_id: str) -> None:
        tree = await start_tree(store, run_id)
        for number in range(30):
            await tree.append(messages=[whole(str(number))])

    threads = [threading.Thread(target=lambda name=name: asyncio.run(write(name))) for name in ("r1", "r2", "r3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("r1", "r2", "r3"):
        assert asyncio.run(texts(store, name)) == [str(number) for number in range(30)]
    asyncio.run(store.close())


def test_a_call_of_an_event_loop_that_ends_while_another_one_waits(url: str, schema: str) -> None:
    store = asyncio.run(PostgresStore.open(url, schema=schema, sessions=1, patience=0.5))
    sent, waits = threading.Event(), threading.Event()

    async def leave() -> None:
        tree = await warm(store)
        held.execute("SELECT 1 FROM heads FOR UPDATE")
        appended = asyncio.ensure_future(tree.append(messages=[whole("a")]))
        await asyncio.sleep(0)
        sent.set()
        await asyncio.to_thread(waits.wait)
        assert not appended.done()

    async def wait(ends: threading.Thread) -> None:
        read = asyncio.ensure_future(store.runs(OPERATOR))
        await asyncio.sleep(0)
        waits.set()
        await asyncio.to_thread(ends.join)
        held.rollback()
        await read
        assert await texts(store) == ["a"]
        await store.close()

    with psycopg.connect(url, options=f"-c search_path={schema}") as held:
        ends = threading.Thread(target=lambda: asyncio.run(leave()))
        ends.start()
        sent.wait()
        asyncio.run(wait(ends))


def test_a_session_of_an_event_loop_that_ends_before_it_can_give_it_to_another_one(url: str, schema: str) -> None:
    store = asyncio.run(PostgresStore.open(url, schema=schema, sessions=1))
    ends, waits = threading.Event(), threading.Event()

    def run() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(warm(store))

        def end() -> None:
            ends.set()
            waits.wait()
            loop.stop()

        loop.call_soon(end)
        loop.run_forever()
        loop.close()

    async def wait() -> None:
        read = asyncio.ensure_future(store.runs(OPERATOR))
        await asyncio.sleep(0)
        waits.set()
        assert len(await read) == 1
        await store.close()

    thread = threading.Thread(target=run)
    thread.start()
    ends.wait()
    asyncio.run(wait())
    thread.join()


def test_a_busy_event_loop_keeps_no_other_one_waiting(url: str, schema: str) -> None:
    store = asyncio.run(PostgresStore.open(url, schema=schema, sessions=3))  # one may be on its way back
    busy, done = threading.Event(), threading.Event()

    async def block() -> None:
        await warm(store)
        busy.set()
        done.wait()

    async def read() -> None:
        assert len(await store.runs(OPERATOR)) == 1
        await start_tree(store, "r2")
        done.set()

    thread = threading.Thread(target=lambda: asyncio.run(block()))
    thread.start()
    busy.wait()
    asyncio.run(read())
    thread.join()
    asyncio.run(store.close())


_LEAVING = """
import asyncio, sys
from concertino.storage import PostgresStore
from concertino.testing.store_suite.kit import start_tree, whole

async def main():
    store = await PostgresStore.open(sys.argv[1], schema=sys.argv[2])
    tree = await start_tree(store)
    for number in range(5):
        await tree.append()
    asyncio.ensure_future(tree.append(messages=[whole("a")]))
    await asyncio.sleep(0)

asyncio.run(main())
"""


async def test_a_process_that_ends_does_what_it_has_begun(url: str, schema: str) -> None:
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", _LEAVING, url, schema], check=True)
    async with await PostgresStore.open(url, schema=schema) as store:
        assert len(await store.messages(OPERATOR, "r1")) == 1


async def test_a_connection_keeps_no_context_of_its_first_caller(url: str, schema: str) -> None:
    class Big:
        pass

    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        tree = await start_tree(store)
        variable: ContextVar[Big] = ContextVar("variable")

        async def call() -> weakref.ref[Big]:
            variable.set(Big())
            for _ in range(3):
                await tree.append()
            return weakref.ref(variable.get())

        found = await asyncio.create_task(call())
        await asyncio.sleep(0)  # the event loop forgets the task
        gc.collect()
        assert found() is None
