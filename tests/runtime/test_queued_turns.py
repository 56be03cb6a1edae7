"""Queued turns that cannot start: they are refused, end visibly or are postponed, and never hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    AnyScope,
    Chat,
    Conversation,
    DataPolicy,
    MemoryStore,
    Resources,
    Runtime,
    Scope,
)
from concertino.errors import (
    ConfigurationError,
    MissingKeyError,
    UnknownConversationError,
    UnknownModelError,
    UnknownTurnError,
)
from concertino.events import RunEnded, RunEvent
from concertino.providers import Model
from concertino.runtime import ConversationTurn, Fleet, LocalBell
from concertino.storage import DueTurn, QueuedTurn, StoredTurn
from concertino.testing import Answer, ScriptedModel

from .test_conversations import ANN, Desk, Held, echo, process, shown, until

GONE = "scripted:gone"


class Models:
    """Opens every model but those that are gone."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        self.gone: set[str] = set()

    def __call__(self, name: str) -> Model:
        if name in self.gone:
            raise UnknownModelError(f"unknown model {name!r}")
        return self.model


async def busy(held: Held, store: MemoryStore, agent: Desk, models: Models) -> Conversation:
    """Return a conversation with a turn in progress."""
    runtime = Runtime([agent], lambda scope, agent: Resources(model=held.model, models=models), store=store)
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    await conversation.send("one")
    await held.asked.wait()
    return conversation


@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        (Chat("two", model=GONE), "unknown model"),
        (Chat("two", model=ScriptedModel(name="gone")), "unknown model"),
        (Chat("two", attachments=["a.pdf"]), "attachments"),  # type: ignore[list-item]
    ],
)
async def test_what_could_never_start_is_not_queued(chat: Chat, problem: str) -> None:
    held = Held()
    models = Models(held.model)
    models.gone.add(GONE)
    conversation = await busy(held, MemoryStore(), Desk(), models)
    with pytest.raises(ConfigurationError, match=problem):
        await conversation.send(chat)
    assert await conversation.queue() == []
    held.go.set()


class Brief(Desk):
    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text="redact")


@pytest.mark.parametrize("agent", [Desk(), Brief()], ids=["keep", "redact"])
async def test_a_queued_turn_that_can_never_start_fails_and_the_next_one_runs(agent: Desk) -> None:
    held, store = Held(), MemoryStore()
    models = Models(held.model)
    conversation = await busy(held, store, agent, models)
    bad = await conversation.send(Chat("two", model=GONE, personalization="Be brief."))
    good = await conversation.send("three")
    models.gone.add(GONE)
    held.go.set()
    kept = agent.get_data_policy().text == "keep"
    assert await until(lambda: _completed(good)) == ("one two three" if kept else "[redacted]")
    failed = await bad.read()
    assert (failed.state, failed.message) == ("failed", "two" if kept else "[redacted]")
    assert failed.error == ("unknown model 'scripted:gone'" if kept else "[redacted]")
    assert len(await shown(conversation)) == 3
    if kept:  # else it is erased, like that of any run
        assert (await bad.result()).status == "failed"
    events = [event async for _, event in bad.events()]
    assert isinstance(events[-1], RunEnded)
    models.gone.clear()
    again = await conversation.regenerate(bad.id)
    assert await until(lambda: _completed(again)) == ("one two" if kept else "[redacted]")


async def _completed(turn: ConversationTurn) -> str:
    stored = await turn.read()
    return stored.answer if stored.state == "completed" else ""


async def test_a_turn_without_resources_is_postponed_and_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    held, store = Held(), MemoryStore()
    keys = {"acme", "rival"}

    def resources(scope: Scope, agent: AgentConfig[Any]) -> Resources:
        if scope.tenant not in keys:
            raise MissingKeyError("the tenant has no key")
        return Resources(model=held.model)

    runtime = Runtime([Desk()], resources, store=store)
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    first = await conversation.send("one")
    await held.asked.wait()
    queued = await conversation.send("two")
    keys.remove("acme")
    held.go.set()
    await first.result()
    await until(lambda: _logged(caplog, "could not be started: ResourcesError"))
    assert (await queued.read()).state == "queued"
    keys.add("acme")
    await store.postpone_turn(ANN, "c", queued.id, 0.0)  # instead of waiting for a second
    await runtime.look()
    assert (await queued.result()).text == "one two"


async def _logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_turns_of_agents_of_other_processes_hide_none_of_this_one() -> None:
    class Other(AgentConfig[None]):
        name = "other"

    store, go = MemoryStore(), asyncio.Event()
    elsewhere = process(store, ScriptedModel(*[Answer(text="first", midway=go.wait)] * 60), Other())
    turns = [await _queue(elsewhere, f"other {number}", "other") for number in range(60)]
    await elsewhere._turns.close()  # type: ignore[attr-defined]  # so that it leaves its queues as they are
    here = process(store, ScriptedModel(Answer(text="first", midway=go.wait), echo), Desk())
    mine = await _queue(here, "mine", "desk")
    go.set()
    for turn in (*turns, mine):
        await turn.result()
    conversation = await here.conversation(ANN, "mine")
    assert await until(lambda: _answer(conversation)) == "first second"


async def _queue(runtime: Runtime, conversation_id: str, agent: str) -> ConversationTurn:
    """Return a turn in progress behind which another one is queued."""
    conversation = await runtime.conversation(ANN, conversation_id, agent=agent)
    turn = await conversation.send("first")
    await conversation.send("second")
    return turn


async def _answer(conversation: Conversation) -> str:
    turn = (await conversation.turns())[0]
    return turn.answer if turn.message == "second" else ""


async def test_a_message_that_finds_no_turn_to_steer_waits_behind_the_queue() -> None:
    class Patient(MemoryStore):
        looks = 0

        async def claim_turns(self, *arguments: Any, **options: Any) -> Sequence[DueTurn]:
            self.looks += 1
            assert self.looks < 20, "it looks for the turn that another process is about to start, again and again"
            return await super().claim_turns(*arguments, **options)

    store = Patient()
    conversation = await process(store, ScriptedModel(echo)).conversation(ANN, "c", agent="desk")
    await store.queue_turn(ANN, "c", QueuedTurn(run_id="r1", input={"message": "one"}), when="idle")
    assert [due.turn.run_id for due in await store.claim_turns(OPERATOR, 60.0)] == ["r1"]
    await conversation.send("two", when_busy="steer")
    assert [turn.message for turn in await conversation.queue()] == ["one", "two"]


class Counted(MemoryStore):
    """Counts the reads of turns, and announces looks for changes."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.looks: asyncio.Queue[None] = asyncio.Queue()

    async def turn(self, scope: Scope, conversation_id: str, run_id: str) -> StoredTurn:
        self.reads += 1
        return await super().turn(scope, conversation_id, run_id)

    async def event_positions(self, scope: AnyScope, root_ids: Sequence[str]) -> Any:
        self.looks.put_nowait(None)
        return await super().event_positions(scope, root_ids)


async def test_readers_of_a_queued_turn_read_it_again_only_when_it_has_changed() -> None:
    """One look serves all of them; each polled the turn for itself."""
    held, store = Held(), Counted()
    runtime = process(store, held.model)
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    await conversation.send("one")
    await held.asked.wait()
    queued = await conversation.send("two")
    store.reads = 0
    streams = [asyncio.create_task(_events(queued)) for _ in range(20)]
    results = [asyncio.create_task(queued.result()) for _ in range(20)]
    for _ in range(20):
        await store.looks.get()
    assert store.reads == 40
    held.go.set()
    assert {(await result).text for result in results} == {"one two"}
    assert {type((await stream)[-1]) for stream in streams} == {RunEnded}
    await runtime.close()


@pytest.mark.parametrize("how", ["withdraw", "delete", "close"])
async def test_readers_of_a_queued_turn_end_when_it_is_removed(how: str) -> None:
    """In whatever process that happens."""
    held, store = Held(), Counted()
    runtime, elsewhere = process(store, held.model), process(store, held.model)
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    await conversation.send("one")
    await held.asked.wait()
    queued = await conversation.send("two")
    reader = asyncio.create_task(_events(queued))
    await store.looks.get()
    if how == "close":
        await runtime.close()
        assert await reader == []
        assert await _events(queued) == []
        return
    there = await elsewhere.conversation(ANN, "c")
    await (there.withdraw(queued.id) if how == "withdraw" else there.delete())
    with pytest.raises(UnknownTurnError if how == "withdraw" else UnknownConversationError):
        await reader
    held.go.set()
    await runtime.close()


async def _events(turn: ConversationTurn) -> list[RunEvent]:
    return [event async for _, event in turn.events()]


class _Late(MemoryStore):
    """A store whose second claim is of the same turns as the first, as if that had lapsed."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Sequence[DueTurn] = ()

    async def claim_turns(self, *arguments: Any, **options: Any) -> Sequence[DueTurn]:
        again, self.first = self.first, ()
        if not again:
            self.first = await super().claim_turns(*arguments, **options)
        return again or self.first


async def test_a_look_does_not_wait_for_a_turn_that_was_started_meanwhile() -> None:
    """Two looks of a process may claim the same turn; the second must go on to other work."""
    held, store = Held(), _Late()
    recording, working = process(store, held.model), process(store, held.model)
    recording.join(Fleet(bell=LocalBell(), targets={"desks": ["desk"]}))
    turn = await (await recording.conversation(ANN, "c", agent="desk")).send("one")
    await working.look()
    await held.asked.wait()
    await working.look()
    held.go.set()
    assert (await working.result(ANN, turn.id)).text == "first"
    await working.close()
    await recording.close()


class _Listing(MemoryStore):
    """A store that answers which turns are due when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    async def claim_turns(self, *arguments: Any, **options: Any) -> Sequence[DueTurn]:
        found = await super().claim_turns(*arguments, **options)
        self.asked.set()
        await self.answer.wait()
        return found


async def test_a_turn_that_a_closing_runtime_has_claimed_is_free_for_others() -> None:
    """Its run would otherwise be left behind with a claim, and wait for the end of its lease."""
    never = asyncio.Event()
    held, store = Held(Answer(text="half an answer", midway=never.wait), "second"), _Listing()
    runtime = process(store, held.model)
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    first = await conversation.send("one")
    await held.asked.wait()
    queued = await conversation.send("two")
    (following,) = (task for task in asyncio.all_tasks() if task.get_name() == f"turn {first.id}")
    held.go.set()
    await store.asked.wait()
    closing = asyncio.create_task(runtime.close())
    await asyncio.sleep(0)  # it begins
    store.answer.set()
    await asyncio.wait([closing, following])
    other = process(store, held.model)
    live = await other.resume(ANN, queued.id)
    assert (await live.result()).text == "second"
    await other.close()


class _Hanging(_Listing):
    """A store that does not answer how a turn is."""

    async def turn(self, *_arguments: Any, **_options: Any) -> StoredTurn:
        await asyncio.Event().wait()
        raise AssertionError


async def test_no_turn_is_followed_any_more_when_its_runtime_is_closed() -> None:
    """Also if the runtime began to close before the turn had started."""
    held, store = Held("second"), _Hanging()
    recording, working = process(store, held.model), process(store, held.model)
    recording.join(Fleet(bell=LocalBell(), targets={"desks": ["desk"]}))
    await (await recording.conversation(ANN, "c", agent="desk")).send("one")
    looking = asyncio.create_task(working.look())
    await store.asked.wait()
    held.go.set()
    closing = asyncio.create_task(working.close(grace=60))
    await asyncio.sleep(0)  # it begins
    store.answer.set()
    await asyncio.wait([looking, closing])
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("turn ")]
    await recording.close()
