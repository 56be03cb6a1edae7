"""The frequent writes take one round trip each. The ceilings only fall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from concertino import AgentConfig, Ask, Chat, Resources, Runtime, Scope, ToolOrchestrator, tool
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel, call
from concertino.testing.store_suite.kit import SCOPE
from concertino.testing.store_suite.store_conversations import claimed_turns, queued, turn
from concertino.waits import Resolution

from .test_direct import counted_handovers, warm
from .trips import counted_trips

STEP = 2
"""Round trips of a step with one tool call: the request, and the answer."""
RUN = 4
"""Round trips of a run without tools: start, request, answer, end."""
CLAIM = 1
"""Round trips of a claim of queued turns while no turn has ended."""


@tool(effect="idempotent")
async def look(n: int) -> str:
    """Look up a number."""
    return f"found {n}" * 100


class Desk(AgentConfig):
    name = "desk"
    tools = (look,)


async def trips_of(store: Any, steps: int, **more: Any) -> int:
    """Return the round trips of a run with *steps* calls of a tool."""
    model = ScriptedModel(*(call("look", n=n) for n in range(steps)), "done")
    with counted_trips() as trips:
        chat = Chat(model=model, message="x", scope=Scope("t", "u"), **more)
        result = await ToolOrchestrator(chat, Desk(), resources=Resources(store=store)).run()
    assert result.status == "completed"
    return len(trips)


async def test_each_append_is_one_round_trip(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        await trips_of(store, 1)
        assert await trips_of(store, 0) == RUN
        assert await trips_of(store, 5) == RUN + 5 * STEP


async def test_a_claim_of_many_queued_turns_takes_as_many_round_trips_as_one(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        for number in range(9):
            await store.open_conversation(SCOPE, f"c{number}", "desk")
            await store.queue_turn(SCOPE, f"c{number}", queued(f"q{number}"), when="always")
        assert await claimed_turns(store, agents=[]) == []  # it prepares the statement
        with counted_trips() as one:
            assert await claimed_turns(store, limit=1) == ["q0"]
        with counted_trips() as many:
            assert await claimed_turns(store, limit=8) == [f"q{number}" for number in range(1, 9)]
    assert len(many) == len(one) == CLAIM


WAKE = {"load": 1, "open_tree": 1}
"""Reads from an approval to the end of its turn."""


class Guarded(Desk):
    def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Ask:
        return Ask()


async def test_a_wake_up_reads_the_journal_once(url: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await PostgresStore.open(url, schema=schema) as store:
        model = ScriptedModel(call("look", n=1), "done")
        async with Runtime([Guarded()], Resources(store=store, model=model), sweep=600) as runtime:
            scope = Scope("t", "u")
            await (await runtime.start(Chat(message="x", scope=scope), "desk")).result()
            (wait,) = await store.approvals(scope)
            reads: Counter[str] = Counter()
            for name in (*WAKE, "run", "runs", "operations", "waits", "usage", "accounts"):
                count_calls(monkeypatch, store, name, reads)
            await runtime.approve(scope, wait.key)
            live = runtime.live(scope, wait.run_id)
            assert live is not None
            assert (await live.result()).status == "completed"
        assert reads == WAKE


ANSWER = 5
"""Round trips of an answer: begin, lock, operation, answer, commit."""
LOAD = 5
"""Round trips of a journal: run, snapshot, entries with messages and media, texts, commit."""
OPEN_TREE = 1
"""Round trips of reading what else a resumed tree has open."""


async def test_an_answer_a_load_and_the_log_share_round_trips(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        model = ScriptedModel(call("look", n=1), "done")
        async with Runtime([Guarded()], Resources(store=store, model=model)) as runtime:
            scope = Scope("t", "u")
            await (await runtime.start(Chat(message="x", scope=scope), "desk")).result()
            (wait,) = await store.approvals(scope)
        with counted_trips() as answer:
            await store.resolve(scope, wait.key, Resolution(id="a", verdict="approved", by="u"))
        with counted_trips() as load:
            assert await store.load(scope, wait.run_id, from_snapshot=True) is not None
        claim = await store.claim(scope, wait.run_id, "another", 60)
        with counted_trips() as open_tree:
            assert (await store.open_tree(claim)).last_event > 0
    assert (len(answer), len(load), len(open_tree)) == (ANSWER, LOAD, OPEN_TREE)


async def test_operations_without_media_are_read_in_one_round_trip(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        await trips_of(store, 1)
        with counted_trips() as trips:
            assert await store.operations(Scope("t", "u")) == ()
        assert len(trips) == 1


def count_calls(monkeypatch: pytest.MonkeyPatch, store: Any, name: str, found: Counter[str]) -> None:
    """Count the calls of a method of *store*."""
    method = getattr(store, name)

    async def counted(*arguments: Any, **options: Any) -> Any:
        found[name] += 1
        return await method(*arguments, **options)

    monkeypatch.setattr(store, name, counted)


async def test_what_readers_ask_often_is_one_round_trip_without_a_thread(url: str, schema: str) -> None:
    scope = Scope("t", "u")
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        async with Runtime([Desk()], Resources(store=store, model=ScriptedModel("done \x00 \ufdd0"))) as runtime:
            conversation = await runtime.conversation(scope, agent="desk")
            turn = await conversation.send("a \ufdd0")
            await turn.result()
        reads: dict[str, Callable[[], Awaitable[object]]] = {
            "events": lambda: store.events(scope, turn.id),
            "event_positions": lambda: store.event_positions(scope, [turn.id]),
            "turn": lambda: store.turn(scope, conversation.id, turn.id),
            "conversation": lambda: store.conversation(scope, conversation.id),
            "open_conversation": lambda: store.open_conversation(scope, conversation.id, "desk"),
        }
        await warm(store)
        for name, read in reads.items():
            first = await read()  # prepares the statement
            with counted_trips() as trips, counted_handovers() as handovers:
                assert await read() == first, name
            assert (len(trips), handovers) == (1, []), name
        found = await store.turn(scope, conversation.id, turn.id)
        assert (found.message, found.answer) == ("a \ufdd0", "done \x00 \ufdd0")


@tool(effect="read")
async def read_all() -> str:
    """Read everything."""
    return "x" * 100_000


class Reader(Desk):
    tools = (read_all,)


async def test_a_turn_is_queued_and_begun_in_one_round_trip_each(url: str, schema: str) -> None:
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        await warm(store)
        await store.open_conversation(SCOPE, "c1", "desk")
        found: list[tuple[int, int]] = []
        for number in range(2):  # the first statements are prepared
            run_id = f"q{number}"
            parent = f"q{number - 1}" * bool(number)
            with counted_trips() as queues:
                assert await store.queue_turn(SCOPE, "c1", queued(run_id), when="always")
            assert await claimed_turns(store) == [run_id]
            await store.open_conversation(SCOPE, "c1", "desk")  # after a thread has closed the turn before
            with counted_trips() as begins:
                tree = await turn(store, run_id, parent, queued=True, end=False)
            found.append((len(queues), len(begins)))
            await tree.end()
    assert found[1] == (1, 1)


async def test_a_page_that_is_long_to_decode_is_read_by_a_thread(url: str, schema: str) -> None:
    model = ScriptedModel(call("read_all"), "done")
    async with await PostgresStore.open(url, schema=schema, sessions=1) as store:
        async with Runtime([Reader()], Resources(store=store, model=model)) as runtime:
            live = await runtime.start(Chat(message="x", scope=SCOPE), "desk")
            await live.result()
        await warm(store)
        await store.events(SCOPE, live.id)
        await store.event_positions(SCOPE, [live.id])
        with counted_trips() as trips:
            page = await store.events(SCOPE, live.id)
    assert len(trips) == 2  # the first answer is refused, whoever has asked
    assert any("x" * 100_000 in str(row.items) for row in page.rows)
