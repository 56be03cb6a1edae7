"""Queued turns whose runs end, or that are withdrawn, in another transaction at the same moment."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from concertino import OPERATOR
from concertino.errors import ConversationBusyError, RunExistsError
from concertino.storage import PostgresStore
from concertino.storage.postgres import single_trip
from concertino.storage.postgres.texts import Wire
from concertino.storage.sql.journal import Beginning
from concertino.testing.store_suite.kit import SCOPE, Tree
from concertino.testing.store_suite.store_conversations import claimed_turns, opened, queued, turn
from tests.faults.proxy import proxy_to

from .server import Server, until_locked


async def test_a_turn_that_is_queued_while_the_run_before_it_ends_is_due(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        await turn(await opened(store), "r1", end=False)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute("UPDATE heads SET ending = 1, ended = 1")
            queueing = asyncio.ensure_future(store.queue_turn(SCOPE, "c1", queued("q1")))
            await until_locked(url, other.info.backend_pid)
        assert await queueing
        assert await claimed_turns(store) == ["q1"]


async def test_a_run_that_ends_while_the_next_turn_is_withdrawn_makes_the_one_after_it_due(
    url: str, schema: str
) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        tree = await turn(await opened(store), "r1", end=False)
        for name in ("q1", "q2"):
            await store.queue_turn(SCOPE, "c1", queued(name))
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute("DELETE FROM turns WHERE run_id = 'q1'")
            ending = asyncio.ensure_future(tree.end())
            await until_locked(url, other.info.backend_pid)
        await ending
        assert await claimed_turns(store) == ["q2"]


async def test_turns_that_another_process_is_claiming_are_left_out(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        for name in ("c1", "c2"):
            await store.open_conversation(SCOPE, name, "supervisor")
            await store.queue_turn(SCOPE, name, queued(f"q-{name}"), when="always")
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute("SELECT 1 FROM turns WHERE run_id = 'q-c1' FOR UPDATE")
            assert await claimed_turns(store, limit=1) == ["q-c2"]
        assert await claimed_turns(store) == ["q-c1"]
        assert await store.claim_due(OPERATOR, "other", 60.0) == []


async def test_turns_that_cannot_be_closed_keep_no_others_from_starting(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        await turn(await opened(store), "r1")
        await store.queue_turn(SCOPE, "c1", queued("q1"), when="always")
        with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as other:
            other.execute("ALTER TABLE turn_words ADD CONSTRAINT refused CHECK (turn < 0)")
            assert await claimed_turns(store) == ["q1"]
            assert await store.search_turns(SCOPE, "ask", limit=1) == ()
            other.execute("ALTER TABLE turn_words DROP CONSTRAINT refused")
        assert await claimed_turns(store) == []
        assert [each.run_id for each in await store.search_turns(SCOPE, "ask", limit=1)] == ["r1"]


async def test_a_queued_turn_that_two_processes_start_at_once(url: str, schema: str) -> None:
    async with (
        await PostgresStore.open(url, schema=schema) as one,
        await PostgresStore.open(url, schema=schema) as other,
    ):
        await (await opened(one)).queue_turn(SCOPE, "c1", queued("q1"), when="always")
        starts = (turn(store, "q1", queued=True, end=False, owner=owner) for store, owner in ((one, "a"), (other, "b")))
        outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Tree, RunExistsError}


async def test_a_turn_whose_answer_is_lost_is_queued_once(server: Server, schema: str) -> None:
    async with (
        proxy_to(server.port) as proxy,
        await PostgresStore.open(
            server.url("postgres", port=proxy.port), schema=schema, sessions=1, patience=2
        ) as store,
    ):
        await opened(store)
        for name in ("q1", "q2"):  # before the statement is prepared, and after
            await store.queue_turn(SCOPE, "c1", queued(name, key=name), when="always")
        proxy.swallows = 1
        assert await store.queue_turn(SCOPE, "c1", queued("q3", key="q3"), when="always")
        assert proxy.swallows == 0
        assert await store.withdraw_turn(SCOPE, "c1", "q3")
        assert await claimed_turns(store) == ["q1"]


async def test_turns_that_a_process_of_the_version_before_starts(
    url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, sent = single_trip._CALLS[Beginning], []

    def begin_of_before(write: Any, sealer: Any) -> Any:
        made = None if write.start.turn.queued else begin(write, sealer)
        if made is None:
            return None
        form = json.loads(str(made.arguments[0]))
        del form["turn"][4:]
        sent.append(form["turn"])
        return made._replace(arguments=(Wire(json.dumps(form)),))

    monkeypatch.setitem(single_trip._CALLS, Beginning, begin_of_before)
    async with await PostgresStore.open(url, schema=schema) as store:
        await turn(await opened(store), "r1", key="k")
        await store.queue_turn(SCOPE, "c1", queued("q1"), when="always")
        with pytest.raises(ConversationBusyError):
            await turn(store, "r2", "r1")
        await turn(store, "q1", "r1", queued=True)
        await turn(store, "r2", "q1")
    assert [len(given) for given in sent] == [4, 4, 4]


async def test_the_input_of_a_queued_turn_is_blanked_at_its_start(url: str, schema: str) -> None:
    inputs = (
        "SELECT t.run_id, x.body <> '' FROM conversation_texts AS x JOIN turns AS t ON t.number = x.turn ORDER BY 1"
    )
    async with await PostgresStore.open(url, schema=schema) as store:
        await opened(store)
        for name in ("q1", "q2"):
            await store.queue_turn(SCOPE, "c1", queued(name), when="always")
        await turn(store, "q1", queued=True, end=False)
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            assert other.execute(inputs).fetchall() == [("q1", False), ("q2", True)]


async def test_a_turn_is_queued_in_an_idle_conversation_after_other_changes_of_it(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        await (await opened(store)).queue_turn(SCOPE, "c1", queued("q1"), when="always")
        await store.withdraw_turn(SCOPE, "c1", "q1")
        with psycopg.connect(url, options=f"-c search_path={schema}") as other:
            other.execute("SELECT 1 FROM conversation_heads FOR UPDATE")
            other.execute(
                "INSERT INTO turns (conversation, run_id, state, anchored, first, mode, created, not_before)"
                " SELECT number, 'q2', 'queued', false, false, '', 0, 0 FROM conversations"
            )
            queueing = asyncio.ensure_future(store.queue_turn(SCOPE, "c1", queued("q3"), when="idle"))
            await until_locked(url, other.info.backend_pid)
        assert not await queueing
