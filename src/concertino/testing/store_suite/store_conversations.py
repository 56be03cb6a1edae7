"""Conversations: one turn at a time, a queue, a tree with one active leaf, search, and erasure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from concertino import Scope
from concertino.errors import (
    ConversationBusyError,
    ConversationError,
    LeafMovedError,
    RunExistsError,
    StorageError,
    TurnExistsError,
    UnknownConversationError,
    UnknownTurnError,
)
from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.scope import OPERATOR
from concertino.storage import Feedback, QueuedTurn, StoredText, TurnStart

from .kit import SCOPE, Factory, FullStore, Tree, start_tree, traces, whole

RIVAL = Scope("o2", "u1")


async def opened(store: FullStore, conversation_id: str = "c1", scope: Scope = SCOPE) -> FullStore:
    await store.open_conversation(scope, conversation_id, "supervisor")
    return store


async def turn(store: FullStore, run_id: str, parent: str = "", *, end: bool = True, **more: Any) -> Tree:
    """Start a turn, and end it."""
    settings = {name: more.pop(name) for name in ("key", "mode", "queued", "at_leaf") if name in more}
    tree = await start_tree(store, run_id, turn=TurnStart(parent=parent, **settings), **more)
    if end:
        said = [whole(UserMessage(f"ask {run_id}")), whole(AssistantMessage((Text(f"say {run_id}"),)))]
        await tree.append("model_answered", messages=said)
        await tree.end()
    return tree


def queued(run_id: str, **more: Any) -> QueuedTurn:
    return QueuedTurn(run_id=run_id, input={"message": f"ask {run_id}"}, **more)


async def shown(store: FullStore) -> list[str]:
    return [each.run_id for each in await store.turns(SCOPE, "c1")]


async def test_a_conversation_is_created_once(store: FullStore) -> None:
    first = await store.open_conversation(SCOPE, "c1", "supervisor")
    assert await store.open_conversation(SCOPE, "c1", "other") == first
    assert (first.agent, first.leaf, first.busy, first.title) == ("supervisor", "", "", "")


async def test_turns_follow_one_another(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    await turn(store, "r2", "r1", mode="RAG")
    assert await shown(store) == ["r2", "r1"]
    found = await store.conversation(SCOPE, "c1")
    assert found is not None
    assert (found.leaf, found.modes) == ("r2", ("RAG",))
    last = await store.turn(SCOPE, "c1", "r2")
    assert (last.state, last.answer, last.parent, last.siblings) == ("completed", "Found.", "r1", ("r2",))


async def test_one_turn_runs_at_a_time(store: FullStore) -> None:
    await opened(store)
    tree = await turn(store, "r1", end=False)
    with pytest.raises(ConversationBusyError) as busy:
        await turn(store, "r2", "r1")
    assert busy.value.run_id == "r1"
    assert await store.run(SCOPE, "r2") is None, "nothing of the refused turn is stored"
    await tree.end()
    await turn(store, "r2", "r1")


async def test_of_two_turns_after_the_same_leaf_one_is_refused(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    await turn(store, "r2", "r1")
    with pytest.raises(LeafMovedError):
        await turn(store, "r3", "r1")
    await turn(store, "r3", "r1", at_leaf=False)
    assert await shown(store) == ["r3", "r1"]


async def test_turns_that_start_at_once(store: FullStore) -> None:
    await opened(store)
    outcomes = await asyncio.gather(*(turn(store, f"r{n}", end=False) for n in range(5)), return_exceptions=True)
    assert sum(isinstance(outcome, Tree) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConversationBusyError) for outcome in outcomes) == 4


async def test_a_key_is_one_turn(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1", key="k")
    for again in (turn(store, "r2", "r1", key="k"), store.queue_turn(SCOPE, "c1", queued("r3", key="k"))):
        with pytest.raises(TurnExistsError) as exists:
            await again
        assert exists.value.run_id == "r1"
    await opened(store, "c2")
    await turn(store, "r4", key="k", conversation_id="c2")


async def test_a_steered_message_has_a_key_too(store: FullStore) -> None:
    await opened(store)
    assert await store.steer_turn(SCOPE, "c1", "k", "wait") is None
    tree = await turn(store, "r1", end=False)
    assert await store.steer_turn(SCOPE, "c1", "k", "wait") == "r1"
    with pytest.raises(TurnExistsError) as exists:
        await store.steer_turn(SCOPE, "c1", "k", "wait")
    assert exists.value.run_id == "r1"
    assert [command.text for command in await store.commands(SCOPE, "r1")] == ["wait"]
    assert await store.queue_turn(SCOPE, "c1", queued("r2"))
    assert await store.steer_turn(SCOPE, "c1", "l", "go on") == "r1"
    assert await store.withdraw_turn(SCOPE, "c1", "r2")
    assert await store.steer_turn(SCOPE, "c1", "m", "stop") == "r1"
    await tree.end()
    assert await shown(store) == ["r1"]


async def test_the_queue(store: FullStore) -> None:
    await opened(store)
    assert not await store.queue_turn(SCOPE, "c1", queued("r2")), "an idle conversation has no queue"
    await opened(store, "c2")
    assert await store.queue_turn(SCOPE, "c2", queued("q1"), when="idle")
    assert not await store.queue_turn(SCOPE, "c2", queued("q2"), when="idle")
    assert await store.queue_turn(SCOPE, "c2", queued("q2"), when="always")
    assert await store.withdraw_turn(SCOPE, "c2", "q1")
    assert await store.withdraw_turn(SCOPE, "c2", "q2")
    tree = await turn(store, "r1", end=False)
    assert not await store.queue_turn(SCOPE, "c1", queued("r2"), when="idle")
    assert await store.queue_turn(SCOPE, "c1", queued("r2"))
    assert await store.queue_turn(SCOPE, "c1", queued("r3"))
    assert await store.queue_turn(SCOPE, "c1", queued("r4", first=True))
    assert await claimed_turns(store) == []
    await tree.end()
    with pytest.raises(ConversationBusyError):
        await turn(store, "r5", "r1")
    for run_id, parent in (("r4", "r1"), ("r2", "r4"), ("r3", "r2")):
        (due,) = await store.claim_turns(OPERATOR, 60.0)
        assert (due.turn.run_id, due.turn.parent, due.turn.input) == (run_id, None, {"message": f"ask {run_id}"})
        await turn(store, run_id, parent, queued=True)
    assert await claimed_turns(store) == []
    assert await shown(store) == ["r3", "r2", "r4", "r1"]


async def idle_queue(store: FullStore, conversation_id: str, scope: Scope = SCOPE, agent: str = "supervisor") -> None:
    """Queue a turn in a conversation that then becomes idle."""
    await store.open_conversation(scope, conversation_id, agent)
    tree = await turn(store, f"r-{conversation_id}", end=False, conversation_id=conversation_id, scope=scope)
    await store.queue_turn(scope, conversation_id, queued(f"q-{conversation_id}"))
    await tree.end()


async def claimed_turns(store: FullStore, seconds: float = 60.0, **asked: Any) -> list[str]:
    return [each.turn.run_id for each in await store.claim_turns(OPERATOR, seconds, **asked)]


async def test_tenants_take_turns(store: FullStore) -> None:
    """Otherwise the queues of one tenant would hide those of all others."""
    for number in range(6):
        await idle_queue(store, f"a{number}")
    for number in range(2):
        await idle_queue(store, f"b{number}", RIVAL)
    assert await claimed_turns(store, limit=4) == ["q-a0", "q-b0", "q-a1", "q-b1"]
    assert await claimed_turns(store, limit=3) == ["q-a2", "q-a3", "q-a4"]
    assert await claimed_turns(store) == ["q-a5"]
    assert await claimed_turns(store) == []


async def test_names_that_no_database_stores_are_refused(store: FullStore) -> None:
    await store.open_conversation(SCOPE, "c1", "supervisor")
    bad = "half \ud800"
    for asked in (
        store.open_conversation(SCOPE, bad, "supervisor"),
        store.conversation(SCOPE, bad),
        store.turn(SCOPE, bad, "r1"),
        store.turn(SCOPE, "c1", bad),
        store.history(SCOPE, bad, "r1"),
        store.events(SCOPE, bad),
        store.queue_turn(SCOPE, bad, queued("q1"), when="always"),
        store.queue_turn(SCOPE, "c1", queued("q1", key=bad), when="always"),
        store.queue_turn(SCOPE, "c1", queued(bad), when="always"),
    ):
        with pytest.raises(StorageError, match="wrote nothing"):
            await asked
    assert await store.all_turns(SCOPE, "c1") == ()


async def test_a_claim_below_its_limit_takes_all_that_is_due(store: FullStore) -> None:
    """Otherwise what equal shares leave over would wait for the next look."""
    for number in range(5):
        await idle_queue(store, f"a{number}")
    await idle_queue(store, "b0", RIVAL)
    assert await claimed_turns(store, limit=4) == ["q-a0", "q-b0", "q-a1", "q-a2"]
    assert await claimed_turns(store, limit=2**70) == ["q-a3", "q-a4"]


@pytest.mark.parametrize("limit", [1, 2])
async def test_tenants_take_turns_also_in_claims_of_fewer_turns(store: FullStore, limit: int) -> None:
    """A worker that is full claims one turn whenever a run has ended."""
    for number in range(12):
        await idle_queue(store, f"a{number}")
    for number in range(12):
        await idle_queue(store, f"b{number}", RIVAL)
    await idle_queue(store, "c", Scope("third", "u1"))
    claimed = [name for _ in range(6 // limit) for name in await claimed_turns(store, limit=limit)]
    assert {"q-a0", "q-a1", "q-b0", "q-b1", "q-c"} < set(claimed)


async def test_queued_turns_of_some_agents_are_claimed(store: FullStore) -> None:
    for number in range(3):
        await idle_queue(store, f"a{number}", agent="other")
    await idle_queue(store, "b")
    assert await claimed_turns(store, limit=2, agents=[]) == []
    assert await claimed_turns(store, limit=2, agents=["supervisor"]) == ["q-b"]
    assert await claimed_turns(store, limit=0) == []
    assert await claimed_turns(store, agents=["supervisor", "other"]) == ["q-a0", "q-a1", "q-a2"]


async def test_a_claimed_turn_that_does_not_start_is_due_again(store: FullStore) -> None:
    await idle_queue(store, "a")
    assert await claimed_turns(store, 0.0) == ["q-a"]
    assert await claimed_turns(store) == ["q-a"]
    assert await claimed_turns(store) == []
    await store.postpone_turn(SCOPE, "a", "q-a", 0.0)
    assert await claimed_turns(store) == ["q-a"]


async def test_a_postponed_turn_is_not_claimed(store: FullStore) -> None:
    await idle_queue(store, "a")
    await idle_queue(store, "b")
    await store.postpone_turn(SCOPE, "a", "q-a", 60.0)
    assert await claimed_turns(store) == ["q-b"]
    await store.postpone_turn(SCOPE, "a", "q-a", 0.0)
    assert await claimed_turns(store) == ["q-a"]


async def test_the_next_of_a_queue_alone_is_claimed(store: FullStore) -> None:
    """Whichever way it becomes the next one."""
    await opened(store)
    tree = await turn(store, "r1", end=False)
    for name in ("a", "b", "c"):
        await store.queue_turn(SCOPE, "c1", queued(name))
    await store.postpone_turn(SCOPE, "c1", "a", 60.0)
    await tree.end()
    assert await claimed_turns(store) == [], "a postponed turn keeps its place"
    await store.withdraw_turn(SCOPE, "c1", "a")
    assert await claimed_turns(store, 0.0) == ["b"]
    await store.queue_turn(SCOPE, "c1", queued("d", first=True), when="always")
    assert await claimed_turns(store, 0.0) == ["d"]
    await store.withdraw_turn(SCOPE, "c1", "d")
    assert await claimed_turns(store) == ["b"]
    tree = await turn(store, "b", "r1", queued=True, end=False)
    assert await claimed_turns(store) == []
    await store.withdraw_turn(SCOPE, "c1", "c")
    await store.queue_turn(SCOPE, "c1", queued("e"))
    assert await claimed_turns(store) == []
    await tree.end()
    assert await claimed_turns(store) == ["e"]


async def test_no_turn_is_claimed_twice(store: FullStore) -> None:
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await idle_queue(store, name)
    found: list[str] = []

    async def claim() -> None:
        while taken := await claimed_turns(store, limit=2):
            found.extend(taken)

    await asyncio.gather(*(claim() for _ in range(4)))
    assert sorted(found) == sorted(f"q-{name}" for name in names)


async def test_texts_of_a_conversation_expire(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    await turn(store, "r2", "r1")
    await store.set_title(SCOPE, "c1", "One", keep_seconds=0.0)
    await store.rate_turn(SCOPE, "c1", "r1", Feedback(rating="up", text="yes"), keep_seconds=0.0)
    await store.rate_turn(SCOPE, "c1", "r2", Feedback(rating="up", text="yes"), keep_seconds=60.0)
    await store.sweep(OPERATOR)
    found = await store.conversation(SCOPE, "c1")
    assert found is not None
    assert found.title == ""
    assert (await store.turn(SCOPE, "c1", "r1")).feedback == Feedback(rating="up")
    assert (await store.turn(SCOPE, "c1", "r2")).feedback == Feedback(rating="up", text="yes")
    assert await store.set_title(SCOPE, "c1", "Two", replace=False) == "Two"


async def test_a_queued_turn_starts_once(store: FullStore) -> None:
    await opened(store)
    tree = await turn(store, "r1", end=False)
    await store.queue_turn(SCOPE, "c1", queued("r2"))
    assert (await store.turn(SCOPE, "c1", "r2")).state == "queued"
    await tree.end()
    await turn(store, "r2", "r1", queued=True)
    with pytest.raises(RunExistsError):
        await turn(store, "r2", "r1", queued=True)
    assert not await store.withdraw_turn(SCOPE, "c1", "r2")


async def test_a_queued_turn_is_withdrawn(store: FullStore) -> None:
    await opened(store)
    tree = await turn(store, "r1", end=False)
    await store.queue_turn(SCOPE, "c1", queued("r2", key="k"))
    with pytest.raises(ConversationError):
        await store.select_leaf(SCOPE, "c1", "r2")
    assert await store.withdraw_turn(SCOPE, "c1", "r2")
    with pytest.raises(UnknownTurnError):
        await store.turn(SCOPE, "c1", "r2")
    await tree.end()
    with pytest.raises(RunExistsError):
        await turn(store, "r2", "r1", queued=True)
    await turn(store, "r3", "r1", key="k")


async def test_branches(store: FullStore) -> None:
    await opened(store)
    for run_id, parent in (("r1", ""), ("r2", "r1"), ("r3", "r2"), ("r4", "r1"), ("r5", "")):
        await turn(store, run_id, parent, at_leaf=False)
    assert await shown(store) == ["r5"]
    assert await store.select_leaf(SCOPE, "c1", "r1", newest=True) == "r4"
    assert await store.select_leaf(SCOPE, "c1", "r2", newest=True) == "r3"
    assert await shown(store) == ["r3", "r2", "r1"]
    assert await store.select_leaf(SCOPE, "c1", "r2") == "r2"
    assert await shown(store) == ["r2", "r1"]
    assert (await store.turn(SCOPE, "c1", "r2")).siblings == ("r2", "r4")
    history = await store.history(SCOPE, "c1", "r3")
    assert [message.text for message in history.messages if isinstance(message, UserMessage)] == [
        "ask r1",
        "ask r2",
        "ask r3",
    ]
    later = await store.history(SCOPE, "c1", "r3", after="r1")
    assert (later.after, len(later.messages)) == ("r1", 4)
    other = await store.history(SCOPE, "c1", "r3", after="r4")
    assert (other.after, len(other.messages)) == ("", 6)


async def test_pages(store: FullStore) -> None:
    await opened(store)
    for number in range(1, 6):
        await turn(store, f"r{number}", f"r{number - 1}" if number > 1 else "")
    page = await store.turns(SCOPE, "c1", limit=2)
    assert [each.run_id for each in page] == ["r5", "r4"]
    rest = await store.turns(SCOPE, "c1", limit=9, before="r4")
    assert [each.run_id for each in rest] == ["r3", "r2", "r1"]
    assert await store.turns(SCOPE, "c1", before="r1") == ()


async def test_the_list(store: FullStore) -> None:
    for name in ("c1", "c2", "c3"):
        await opened(store, name)
    await opened(store, "c9", RIVAL)
    await turn(store, "r1", conversation_id="c1")
    assert [each.id for each in await store.conversations(SCOPE)] == ["c1", "c3", "c2"]
    assert [each.id for each in await store.conversations(SCOPE, limit=1)] == ["c1"]
    assert [each.id for each in await store.conversations(SCOPE, before="c1")] == ["c3", "c2"]


async def test_title_and_feedback_are_replaced(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    assert await store.set_title(SCOPE, "c1", "One", replace=False) == "One"
    assert await store.set_title(SCOPE, "c1", "Two", replace=False) == "One"
    assert await store.set_title(SCOPE, "c1", "Three") == "Three"
    assert [each.title for each in await store.conversations(SCOPE)] == ["Three"]
    for feedback in (Feedback(rating="up"), Feedback(rating="down", text="no"), None):
        await store.rate_turn(SCOPE, "c1", "r1", feedback)
        assert (await store.turn(SCOPE, "c1", "r1")).feedback == feedback


async def test_search(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    assert await store.search_turns(SCOPE, "ask r1") == (), "a turn is found when it is closed"
    await claimed_turns(store)
    await claimed_turns(store)
    assert [each.run_id for each in await store.search_turns(SCOPE, "SAY r1")] == ["r1"]
    assert await store.search_turns(SCOPE, "sa") == (), "words are found, not parts of them"
    assert await store.search_turns(SCOPE, "say nothing") == ()
    assert await store.search_turns(SCOPE, " \u2026 ") == ()
    assert await store.search_turns(RIVAL, "ask r1") == ()


async def test_a_search_reads_the_newest_turns_alone(store: FullStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.storage.sql.conversations._MOST_SEARCHED", 2)
    await opened(store)
    for number in range(3):
        await turn(store, f"r{number}", parent=f"r{number - 1}" if number else "")
    await claimed_turns(store)
    await claimed_turns(store)
    assert {each.run_id for each in await store.search_turns(SCOPE, "say")} == {"r1", "r2"}
    assert await store.search_turns(SCOPE, "say r0") == ()


async def test_text_that_is_kept_for_a_time_is_not_indexed(store: FullStore) -> None:
    await opened(store)
    tree = await turn(store, "r1", end=False)
    await tree.append("model_answered", messages=[whole(UserMessage("canary"), keep_seconds=60.0)])
    await tree.end()
    await claimed_turns(store)
    assert await store.search_turns(SCOPE, "canary") == ()
    assert not (await store.history(SCOPE, "c1", "r1")).lasting


async def test_a_conversation_is_of_its_scope(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1")
    for call in (
        store.turn(RIVAL, "c1", "r1"),
        store.turns(RIVAL, "c1"),
        store.all_turns(RIVAL, "c1"),
        store.started_turns(RIVAL, "c1"),
        store.history(RIVAL, "c1", "r1"),
        store.queue_turn(RIVAL, "c1", queued("r2")),
        store.steer_turn(RIVAL, "c1", "", "x"),
        store.withdraw_turn(RIVAL, "c1", "r1"),
        store.postpone_turn(RIVAL, "c1", "r1", 1.0),
        store.select_leaf(RIVAL, "c1", "r1"),
        store.set_title(RIVAL, "c1", "x"),
        store.rate_turn(RIVAL, "c1", "r1", None),
        store.delete_conversation(RIVAL, "c1"),
        store.conversations(RIVAL, before="c1"),
        turn(store, "r2", scope=RIVAL),
    ):
        with pytest.raises(UnknownConversationError):
            await call
    assert await store.conversation(RIVAL, "c1") is None
    await opened(store, "c1", RIVAL)
    with pytest.raises(UnknownTurnError):
        await store.turn(RIVAL, "c1", "r1")
    await store.delete_conversation(RIVAL, "c1")
    assert await shown(store) == ["r1"]


async def test_turns_are_listed_in_the_order_of_their_start(store: FullStore) -> None:
    await opened(store)
    assert await store.started_turns(SCOPE, "c1") == ()
    tree = await turn(store, "r1", end=False)
    await store.queue_turn(SCOPE, "c1", queued("r2"))
    await store.queue_turn(SCOPE, "c1", queued("r3", first=True))
    assert await store.started_turns(SCOPE, "c1", after="") == ("r1",)
    assert await store.started_turns(SCOPE, "c1", after="r2") == (), "it has not started"
    await tree.end()
    await turn(store, "r3", "r1", queued=True)
    await turn(store, "r2", "r3", queued=True)
    assert await store.started_turns(SCOPE, "c1") == ("r2",)
    assert await store.started_turns(SCOPE, "c1", after="") == ("r1", "r3", "r2")
    assert await store.started_turns(SCOPE, "c1", after="r1", limit=1) == ("r3",)
    with pytest.raises(UnknownTurnError):
        await store.started_turns(SCOPE, "c1", after="r9")


async def test_every_change_of_a_conversation_changes_its_mark(store: FullStore) -> None:
    async def mark() -> str | None:
        here, missing, other = await store.conversation_marks(OPERATOR, [(SCOPE, "c1"), (SCOPE, "c9"), (RIVAL, "c1")])
        assert missing is other is None
        return here

    assert await mark() is None
    assert list(await store.conversation_marks(OPERATOR, [])) == []
    await opened(store)
    seen = [await mark()]

    async def changed() -> None:
        seen.append(await mark())
        assert len(set(seen)) == len(seen)

    tree = await turn(store, "r1", end=False)
    await changed()
    await store.queue_turn(SCOPE, "c1", queued("r2"))
    await changed()
    await store.queue_turn(SCOPE, "c1", queued("r3"))
    await changed()
    await tree.end()
    await changed()
    assert await mark() == seen[-1]
    await turn(store, "r2", "r1", queued=True, mode="RAG")
    await changed()
    await store.withdraw_turn(SCOPE, "c1", "r3")
    await changed()
    for title in ("one", "two"):
        await store.set_title(SCOPE, "c1", title)
        await changed()
    await store.select_leaf(SCOPE, "c1", "r1")
    await changed()
    for feedback in (Feedback(rating="up"), Feedback(rating="down"), None):
        await store.rate_turn(SCOPE, "c1", "r1", feedback)
        await changed() if feedback else None
    await store.delete_conversation(SCOPE, "c1")
    assert await mark() is None


CANARY = "xylophone"


@pytest.mark.parametrize("how", ["delete", "erase"])
async def test_erasure_leaves_no_trace(factory: Factory, tmp_path: Path, how: str) -> None:
    store = await factory(tmp_path)
    await opened(store, f"c-{CANARY}")
    await opened(store, "c2", Scope("o1", "u2"))
    text = StoredText(id="t1", body=f"an edit {CANARY}", of_conversation=True)
    shared = StoredText(id="t2", body="a prompt")
    more = {"conversation_id": f"c-{CANARY}", "task": CANARY}
    tree = await turn(store, "r1", end=False, **more)
    await tree.append("model_answered", messages=[whole(UserMessage(f"{CANARY} strings"))], texts=[text, shared])
    await store.queue_turn(SCOPE, f"c-{CANARY}", QueuedTurn(run_id="r2", input={"message": CANARY}))
    await tree.end(answer=CANARY)
    await store.set_title(SCOPE, f"c-{CANARY}", CANARY)
    await store.rate_turn(SCOPE, f"c-{CANARY}", "r1", Feedback(text=CANARY))
    await turn(store, "r9", conversation_id="c2", scope=Scope("o1", "u2"))
    await claimed_turns(store)
    assert await store.search_turns(SCOPE, "strings")
    if how == "delete":
        await store.delete_conversation(SCOPE, f"c-{CANARY}")
    else:
        await store.erase(SCOPE, force=True)
    assert await store.conversations(SCOPE) == ()
    assert await store.search_turns(SCOPE, "strings") == ()
    assert await store.messages(SCOPE, "r1") == ()
    assert [each.run_id for each in await store.search_turns(Scope("o1", "u2"), "ask")] == ["r9"]
    with pytest.raises(UnknownConversationError):
        await store.delete_conversation(SCOPE, f"c-{CANARY}")
    await store.close()
    assert traces(tmp_path, CANARY) == []


async def test_deleting_ends_the_turn_in_progress_and_keeps_the_bill(store: FullStore) -> None:
    await opened(store)
    await turn(store, "r1", end=False)
    erased = await store.delete_conversation(SCOPE, "c1")
    assert erased.runs == 1
    run = await store.run(SCOPE, "r1")
    assert run is not None
    assert (run.state, run.start.scope.user, run.start.task) == ("cancelled", "u1", "")
