"""The start of queued turns: once, in their order, and only while nothing else has changed the conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino.errors import (
    ConversationBusyError,
    LeafMovedError,
    RunExistsError,
    StorageError,
    TurnExistsError,
    UnknownConversationError,
    UnknownTurnError,
)
from concertino.scope import OPERATOR

from .kit import SCOPE, FullStore, Tree
from .store_conversations import claimed_turns, opened, queued, shown, turn


async def started(store: FullStore, run_id: str, parent: str = "", **more: Any) -> Tree:
    return await turn(store, run_id, parent, queued=True, end=False, **more)


async def test_a_queued_turn_waits_for_the_turn_in_progress(store: FullStore) -> None:
    await opened(store)
    tree = await turn(store, "r1", end=False)
    await store.queue_turn(SCOPE, "c1", queued("q1"))
    with pytest.raises(ConversationBusyError) as busy:
        await started(store, "q1", "r1")
    assert busy.value.run_id == "r1"
    await tree.end()
    await started(store, "q1", "r1")


async def test_a_queued_turn_waits_for_those_before_it(store: FullStore) -> None:
    await opened(store)
    for name in ("q1", "q2"):
        await store.queue_turn(SCOPE, "c1", queued(name), when="always")
    with pytest.raises(ConversationBusyError) as busy:
        await started(store, "q2")
    assert busy.value.run_id == "q1"
    await started(store, "q1")


async def test_a_queued_turn_that_is_refused_stays_queued_with_its_input(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    await store.queue_turn(SCOPE, "c1", queued("q1", key="k", mode="RAG"), when="always")
    with pytest.raises(LeafMovedError):
        await started(store, "q1")
    with pytest.raises(UnknownTurnError):
        await started(store, "q1", "r9", at_leaf=False)
    assert await store.run(SCOPE, "q1") is None
    (due,) = await store.claim_turns(OPERATOR, 60.0)
    assert (due.turn.run_id, due.turn.input) == ("q1", {"message": "ask q1"})
    tree = await started(store, "q1", "r1", key="k", mode="RAG")
    await tree.end()
    assert await shown(store) == ["q1", "r1"]
    found = await store.conversation(SCOPE, "c1")
    assert found is not None
    assert found.modes == ("RAG",)


async def test_a_queued_turn_that_is_started_twice_at_once(store: FullStore) -> None:
    await opened(store)
    await store.queue_turn(SCOPE, "c1", queued("q1"), when="always")
    outcomes = await asyncio.gather(*(started(store, "q1", owner=f"p{n}") for n in range(4)), return_exceptions=True)
    assert sum(isinstance(outcome, Tree) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, RunExistsError) for outcome in outcomes) == 3


async def test_messages_with_one_key_that_are_queued_at_once(store: FullStore) -> None:
    await opened(store)
    queueing = (store.queue_turn(SCOPE, "c1", queued(f"q{n}", key="k"), when="always") for n in range(4))
    outcomes = await asyncio.gather(*queueing, return_exceptions=True)
    assert outcomes.count(True) == 1
    assert {each.run_id for each in outcomes if isinstance(each, TurnExistsError)} == {f"q{outcomes.index(True)}"}
    assert await claimed_turns(store) == [f"q{outcomes.index(True)}"]


async def test_a_turn_is_queued_after_a_turn_of_its_conversation(store: FullStore) -> None:
    await turn(await opened(store), "r1")
    await turn(await opened(store, "c2"), "s1", conversation_id="c2")
    for parent in ("s1", "r9"):
        with pytest.raises(UnknownTurnError):
            await store.queue_turn(SCOPE, "c1", queued("q1", parent=parent), when="always")
    for name, parent in (("q1", ""), ("q2", "r1")):
        assert await store.queue_turn(SCOPE, "c1", queued(name, parent=parent), when="always")
        (due,) = await store.claim_turns(OPERATOR, 60.0)
        assert (due.turn.run_id, due.turn.parent) == (name, parent)
        await (await started(store, name, parent, at_leaf=False)).end()


async def test_a_turn_that_is_queued_with_the_id_of_another_changes_nothing(store: FullStore) -> None:
    await opened(store)
    assert await store.queue_turn(SCOPE, "c1", queued("q1", key="a"), when="always")
    with pytest.raises(StorageError):
        await store.queue_turn(SCOPE, "c1", queued("q1", key="b"), when="always")
    assert await claimed_turns(store) == ["q1"]


async def test_an_agent_that_is_named_twice_has_one_queue(store: FullStore) -> None:
    await opened(store)
    for name in ("q1", "q2"):
        await store.queue_turn(SCOPE, "c1", queued(name), when="always")
    due = await store.claim_turns(OPERATOR, 60.0, agents=["supervisor", "supervisor"])
    assert [each.turn.run_id for each in due] == ["q1"]


async def test_an_erased_conversation_has_no_queue(store: FullStore) -> None:
    await opened(store)
    await store.queue_turn(SCOPE, "c1", queued("q1"), when="always")
    await store.delete_conversation(SCOPE, "c1")
    with pytest.raises(UnknownConversationError):
        await started(store, "q1")
    with pytest.raises(UnknownConversationError):
        await store.queue_turn(SCOPE, "c1", queued("q2"), when="always")
    assert await claimed_turns(store) == []
    await opened(store)
    with pytest.raises(RunExistsError):
        await started(store, "q1")
