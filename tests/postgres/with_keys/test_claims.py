"""Claims of turns while the key store is slow or fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from concertino import OPERATOR
from concertino.errors import StorageError
from concertino.messages import ToolMessage, UserMessage
from concertino.storage import KeyFile, PostgresStore
from concertino.storage.call_store import Consumer
from concertino.storage.keys import StoredKey
from concertino.testing.store_suite.kit import SCOPE, whole
from concertino.testing.store_suite.store_conversations import claimed_turns, opened, queued, turn


class Failing(KeyFile):
    """Keys of which no new one is made while the test says so."""

    fails = False

    def current(self, names: Sequence[str]) -> Sequence[StoredKey]:
        if self.fails:
            raise StorageError("the keys cannot be reached")
        return super().current(names)


class Held(KeyFile):
    """Keys that are found and made when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.free = threading.Event(), threading.Event()
        self.free.set()

    def find(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        self._wait()
        return super().find(ids)

    def current(self, names: Sequence[str]) -> Sequence[StoredKey]:
        self._wait()
        return super().current(names)

    def _wait(self) -> None:
        if not self.free.is_set():
            self.asked.set()
            self.free.wait()


@asynccontextmanager
async def claiming(store: PostgresStore, held: Held, consumer: Consumer | None = None) -> AsyncIterator[None]:
    """Claim turns, and wait for a key in the body."""
    held.free.clear()
    claim = asyncio.ensure_future(store.claim_turns(OPERATOR, 60.0, consumer=consumer))
    try:
        await asyncio.to_thread(held.asked.wait)
        yield
    finally:
        held.free.set()
    await claim


def lock(url: str, schema: str, tables: str) -> None:
    """Lock all rows of the *tables*. Raises if one of them is locked."""
    with psycopg.connect(url, options=f"-c search_path={schema}") as connection:
        connection.execute(f"SELECT 1 FROM {tables} FOR UPDATE NOWAIT".encode())


@pytest.mark.parametrize("consumer", [None, Consumer(owner="me", targets=["svc1_a"])], ids=["any", "the-only-one"])
async def test_no_turn_is_locked_while_a_claim_asks_for_its_key(
    url: str, schema: str, keys: Path, consumer: Consumer | None
) -> None:
    held = Held(keys)
    async with (
        await PostgresStore.open(url, schema=schema, keys=KeyFile(keys)) as web,
        await PostgresStore.open(url, schema=schema, keys=held) as worker,
    ):
        await (await opened(web)).queue_turn(SCOPE, "c1", queued("q1"), when="always")
        await web.claim_target(OPERATOR, "svc1_a", "me", 60.0)
        async with claiming(worker, held, consumer):
            lock(url, schema, "turns, consumers")
            assert await web.withdraw_turn(SCOPE, "c1", "q1")


async def test_nothing_is_locked_while_the_end_of_a_turn_asks_for_a_key(url: str, schema: str, keys: Path) -> None:
    held = Held(keys)
    async with await PostgresStore.open(url, schema=schema, keys=held) as worker:
        await (await opened(worker)).queue_turn(SCOPE, "c1", queued("q1"), when="always")  # so it has the key of c1
        await worker.withdraw_turn(SCOPE, "c1", "q1")
        await opened(worker, "c2")
        for name in ("c1", "c2"):
            tree = await turn(worker, f"run of {name}", conversation_id=name, end=False)
            used = ToolMessage(call_id="a", name="look", content="found")
            await tree.append("calls_changed", messages=[whole(UserMessage("Look.")), whole(used)])
            await tree.end()
        async with claiming(worker, held):
            lock(url, schema, "turns, conversation_heads")


async def test_a_turn_that_ends_while_the_key_store_fails_is_found_later(url: str, schema: str, keys: Path) -> None:
    failing = Failing(keys)
    async with await PostgresStore.open(url, schema=schema, keys=failing) as store:
        await opened(store)
        await opened(store, "c2")
        await store.queue_turn(SCOPE, "c2", queued("q1"), when="always")
        await turn(store, "r1")
        failing.fails = True
        assert await claimed_turns(store) == ["q1"]
        failing.fails = False
        await claimed_turns(store)
        assert [each.run_id for each in await store.search_turns(SCOPE, "say")] == ["r1"]


async def test_a_queued_turn_whose_input_was_changed_is_claimed_like_the_others(
    url: str, schema: str, keys: Path
) -> None:
    async with await PostgresStore.open(url, schema=schema, keys=KeyFile(keys)) as store:
        for name in ("c1", "c2"):
            await (await opened(store, name)).queue_turn(SCOPE, name, queued(f"q of {name}"), when="always")
        with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as other:
            other.execute(
                "UPDATE conversation_texts SET body = overlay(body PLACING 'AAAA' FROM 60)"
                " WHERE turn = (SELECT number FROM turns WHERE run_id = 'q of c1')"
            )
        due = await store.claim_turns(OPERATOR, 60.0)
        assert {each.turn.run_id: each.turn.input for each in due} == {
            "q of c1": {},
            "q of c2": {"message": "ask q of c2"},
        }
        assert (await store.turn(SCOPE, "c1", "q of c1")).input == {}
