"""Lost connections, restarts and conflicts end in recovery, or in an error that names the remedy."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from concertino import OPERATOR
from concertino.errors import StaleClaimError, StorageError
from concertino.storage import EventBatch, EventRow, PostgresStore
from concertino.testing.store_suite.kit import SCOPE, end, record, result_of, start_tree, wait, whole
from concertino.testing.store_suite.store_calls import REPLY, called, calling
from tests.faults.proxy import Proxy, proxy_to

from .server import Server, until_locked


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    """A proxy to the shared server."""
    async with proxy_to(server.port) as made:
        yield made


@pytest.fixture
async def store(server: Server, proxy: Proxy, schema: str) -> AsyncIterator[PostgresStore]:
    """A store with one session, behind the proxy."""
    url = server.url("postgres", port=proxy.port)
    async with await PostgresStore.open(url, schema=schema, sessions=1, patience=2) as made:
        yield made


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that the test may stop."""
    made = Server()
    try:
        made.start()
        yield made
    finally:
        made.close()


async def test_a_cut_connection_is_made_anew(store: PostgresStore, proxy: Proxy) -> None:
    tree = await start_tree(store)
    for number in range(3):
        proxy.cut()
        await tree.append(messages=[whole(f"{number}")])
    assert len(await store.messages(OPERATOR, "r1")) == 3


async def test_an_append_whose_answer_is_lost_is_written_once(store: PostgresStore, proxy: Proxy) -> None:
    tree = await start_tree(store)
    proxy.swallows = 1
    head = await tree.append(messages=[whole("a")], usage=[record(1)])
    assert (proxy.swallows, head.seq) == (0, 2)
    assert len(await store.messages(OPERATOR, "r1")) == 1
    await tree.append(messages=[whole("b")])


async def test_a_start_whose_answer_is_lost_is_one_run(store: PostgresStore, proxy: Proxy) -> None:
    await store.runs(OPERATOR)
    for number in (1, 2, 3):  # the answer to the login, then to the statement's preparation, and to the call
        proxy.swallows = number > 1
        tree = await start_tree(store, f"r{number}")
        assert proxy.swallows == 0
        await tree.append()
    assert len(await store.runs(OPERATOR)) == 3


async def test_events_whose_answer_is_lost_are_stored_once(store: PostgresStore, proxy: Proxy) -> None:
    tree = await start_tree(store)
    for number in (1, 2):  # the first one prepares the statement
        proxy.swallows = number - 1
        row = EventRow(run_id="r1", entry=1, items=[[0, {"type": "x"}]])
        assert await store.add_events([EventBatch(claim=tree.claim, first=number, last=number, rows=[row])]) == [None]
    assert proxy.swallows == 0
    assert [found.first for found in (await store.events(OPERATOR, "r1")).rows] == [1, 2]


async def test_events_that_replace_a_result_are_stored_once_if_the_answer_is_lost(
    store: PostgresStore, proxy: Proxy
) -> None:
    tree = await start_tree(store)
    for number in (1, 2):  # the first one prepares the statement
        proxy.swallows = number - 1
        done = {"type": "tool_done", "call_id": f"c{number}", "replaces": True}
        row = EventRow(run_id="r1", entry=1, items=[[0, done]])
        withheld = [("r1", f"c{number}")]
        batch = EventBatch(claim=tree.claim, first=number, last=number, rows=[row], withheld=withheld)
        assert await store.add_events([batch]) == [None]
    assert proxy.swallows == 0
    assert [found.first for found in (await store.events(OPERATOR, "r1")).rows] == [1, 2]


@pytest.mark.parametrize("answers", range(1, 9))
async def test_a_transaction_whose_answers_are_lost_is_done_once(
    store: PostgresStore, proxy: Proxy, answers: int
) -> None:
    """The commit is the last of its answers: the server is asked for the outcome."""
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait()])
    await store.release(tree.claim)
    asked = asyncio.ensure_future(store.resolve(OPERATOR, "w1", result_of("first")))
    proxy.swallows = answers
    found = await asked
    assert found.resolution is not None
    assert found.resolution.content == "first"
    proxy.swallows = 0
    again = await store.resolve(OPERATOR, "w1", result_of("second"))
    assert again.resolution == found.resolution


async def test_a_silent_link_is_given_up(store: PostgresStore, proxy: Proxy) -> None:
    tree = await start_tree(store)
    proxy.frozen = True
    appended = asyncio.ensure_future(tree.append(messages=[whole("a")]))
    while proxy.connections < 3:  # noqa: ASYNC110 - that of `open`, the first of the session, and a new one
        await asyncio.sleep(0.01)
    proxy.frozen = False
    assert (await appended).seq == 2
    assert proxy.connections > 1
    assert len(await store.messages(OPERATOR, "r1")) == 1


async def test_a_closed_store_behind_a_cut_link_ends(store: PostgresStore, proxy: Proxy) -> None:
    await start_tree(store)
    proxy.cut()
    await store.close()
    with pytest.raises(StorageError, match="is closed: open it again"):
        await store.runs(OPERATOR)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restarted_server(own_server: Server, how: signal.Signals) -> None:
    async with await PostgresStore.open(own_server.url("postgres"), patience=30) as store:
        tree = await start_tree(store)
        await tree.append(messages=[whole("a")])
        await asyncio.to_thread(own_server.stop, how)
        appended = asyncio.ensure_future(tree.append(messages=[whole("b")]))
        await asyncio.to_thread(own_server.start)
        assert (await appended).seq == 3
        assert len(await store.messages(OPERATOR, "r1")) == 2


async def test_a_server_that_stays_away(own_server: Server) -> None:
    async with await PostgresStore.open(own_server.url("postgres"), patience=0.2) as store:
        tree = await start_tree(store)
        own_server.stop()
        with pytest.raises(StorageError, match=r"postgres at 127.0.0.1 cannot be reached: check that the server runs"):
            await tree.append(messages=[whole("a")])
        own_server.start()
        await tree.append(messages=[whole("b")])


async def test_a_server_that_can_only_be_read(own_server: Server) -> None:
    async with await PostgresStore.open(own_server.url("postgres"), patience=1) as store:
        tree = await start_tree(store)
        with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("SET default_transaction_read_only = off")
            with pytest.raises(StorageError, match="is read-only, as a standby is: use the URL of the primary"):
                while True:
                    await tree.append()
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")
        tree.next["r1"] = (await store.runs(OPERATOR))[0].entries
        await tree.append()


async def test_connections_that_are_used_up(own_server: Server) -> None:
    own_server.stop()
    own_server.start(max_connections="6", superuser_reserved_connections="0", reserved_connections="0")
    async with await PostgresStore.open(own_server.url("postgres"), sessions=4, patience=1) as store:
        trees = [await start_tree(store, f"r{number}") for number in range(8)]
        others = [psycopg.connect(own_server.url("postgres")) for _ in range(3)]
        try:
            heads = await asyncio.gather(*(tree.append() for tree in trees), return_exceptions=True)
        finally:
            for other in others:
                other.close()
        failed = [head for head in heads if isinstance(head, BaseException)]
        assert all("has too many connections" in str(error) for error in failed)
        assert len(failed) < len(trees), "one connection is enough for all"


async def test_cancelled_calls_leave_no_connection_behind(store: PostgresStore) -> None:
    for _ in range(50):
        asked = [asyncio.ensure_future(store.runs(OPERATOR)) for _ in range(20)]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    assert await store.runs(OPERATOR) == ()


async def test_a_refused_row_is_not_quoted(store: PostgresStore, url: str, schema: str) -> None:
    tree = await start_tree(store)
    with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as other:
        other.execute("ALTER TABLE messages ADD CONSTRAINT refused CHECK (body = '') NOT VALID")
    with pytest.raises(StorageError, match='violates check constraint "refused"') as refused:
        await tree.append(messages=[whole("canary")])
    assert "canary" not in str(refused.value)


async def test_a_deadlock_is_overcome(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        await start_tree(store, "r1")
        await start_tree(store, "r2")
        held = "SELECT 1 FROM heads WHERE run = (SELECT number FROM runs WHERE run_id = %s) FOR UPDATE"
        with psycopg.connect(url, options=f"-c search_path={schema} -c deadlock_timeout=60s") as other:
            other.execute(held, ("r2",))
            asked = asyncio.ensure_future(store.erase(SCOPE))  # it locks r1, and waits for r2
            await until_locked(url, other.info.backend_pid)
            await asyncio.to_thread(other.execute, held, ("r1",))
            assert not asked.done()
        with pytest.raises(StorageError, match="has not ended"):
            await asked


async def test_the_end_of_a_called_run_waits_for_its_caller_first(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        await calling(store)
        tree = await called(store)
        held = "SELECT 1 FROM heads WHERE run = (SELECT number FROM runs WHERE run_id = %s) FOR UPDATE NOWAIT"
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute(held, ("r1",))  # as the end of the caller, which then stops the run
            ended = asyncio.ensure_future(tree.append("ended", end=end(reply=REPLY)))
            await until_locked(url, other.info.backend_pid)
            await asyncio.to_thread(other.execute, held, ("r2",))
        await ended


async def test_a_claim_that_was_taken_is_stale_for_the_process_that_slept(url: str, schema: str) -> None:
    async with (
        await PostgresStore.open(url, schema=schema) as first,
        await PostgresStore.open(url, schema=schema) as second,
    ):
        tree = await start_tree(first, seconds=0.0)
        (claim,) = await second.claim_due(OPERATOR, "other", 60.0)
        assert not claim.sure
        with pytest.raises(StaleClaimError):
            await tree.append()
