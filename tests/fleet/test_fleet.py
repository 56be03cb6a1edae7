"""Web processes record messages, and workers answer them. Each process is a runtime of its own here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    MemoryStore,
    RateLimit,
    Resources,
    Retry,
    RunContext,
    Runtime,
    Scope,
    SharedRateLimit,
    ToolCall,
    tool,
)
from concertino.errors import ConfigurationError, ConversationBusyError, UnknownConversationError
from concertino.events import RunEnded, TextDelta
from concertino.runtime import Fleet, LocalBell, conversation_watch, event_log, event_window, watchdog
from concertino.storage import Claim, StoredConversation
from concertino.testing import Answer, ScriptedModel, call

CARLA = Scope(user="carla")
NEVER = 3600.0
TARGETS = {"desks": ["desk"], "others": ["clerk"]}


class Bell(LocalBell):
    """A bell between the runtimes of a test, which may be out of order."""

    reaches_others = True

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken
        self.rung: list[str] = []

    def ring(self, topic: str) -> None:
        self.rung.append(topic)
        if not self.broken:
            super().ring(topic)


@tool(effect="once")
async def refund() -> str:
    """Refund an order."""
    return "refunded"


class Desk(AgentConfig[None]):
    name = "desk"


class Clerk(AgentConfig[None]):
    name = "clerk"
    tools = (refund,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


def joined(runtime: Runtime, fleet: Fleet) -> Runtime:
    runtime.join(fleet)
    return runtime


@asynccontextmanager
async def processes(
    model: ScriptedModel, bell: Bell, *, sweep: float = NEVER, coroutines: int = 16, takes: tuple[str, ...] = ("desks",)
) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """Open a web process and a worker on the same store."""
    store = MemoryStore()
    resources = Resources(store=store, models=lambda _: model, model=model)
    agents = [Desk(), Clerk()]
    seat = Fleet(bell=bell, targets=TARGETS, takes=takes, coroutines=coroutines)
    async with (
        joined(Runtime(agents, resources, sweep=sweep), Fleet(bell=bell, targets=TARGETS)) as web,
        joined(Runtime(agents, resources, sweep=sweep), seat) as worker,
    ):
        await worker.look()  # its first look is over: from now on only a bell or a sweep lets it look
        await asyncio.sleep(0)
        yield web, worker


async def test_a_bell_brings_a_message_to_a_worker_and_its_events_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "RARE", NEVER)
    gate, bell = asyncio.Event(), Bell()
    model = ScriptedModel(Answer(text="one two three four", midway=gate.wait))
    async with processes(model, bell) as (web, _worker):
        conversation = await web.conversation(CARLA, agent="desk")
        turn = await conversation.send("hello")
        seen = []
        async for _, event in turn.events():
            seen.append(event)
            if isinstance(event, TextDelta):
                gate.set()
        assert web.live(OPERATOR, turn.id) is None
        assert isinstance(seen[-1], RunEnded)
        assert (await turn.read()).answer == "one two three four"
    assert "cmd.agent.desks.wakeup" in bell.rung
    assert {topic.rpartition(".")[2] for topic in bell.rung} == {"wakeup", "chunk", "changed"}


async def test_a_lost_bell_is_replaced_by_the_sweep() -> None:
    async with processes(ScriptedModel("hello"), Bell(broken=True), sweep=0.01) as (web, _worker):
        turn = await (await web.conversation(CARLA, agent="desk")).send("hello")
        assert [event async for _, event in turn.events()][-1].result.text == "hello"


async def test_a_worker_takes_only_its_targets() -> None:
    bell = Bell()
    async with processes(ScriptedModel("hello"), bell, sweep=0.01) as (web, worker):
        left = await (await web.conversation(CARLA, agent="clerk")).send("hello")
        taken = await (await web.conversation(CARLA, agent="desk")).send("hello")
        async for _ in taken.events():
            pass
        await worker.look()
        assert (await left.read()).state == "queued"
        assert next(topic for topic in bell.rung if topic.startswith("cmd.")) == "cmd.agent.others.wakeup"


async def test_a_resumed_run_has_a_head_start_but_no_second_answer_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does the end of the process."""
    monkeypatch.setattr(watchdog, "_HEAD_START", NEVER)
    model = ScriptedModel(call("refund"), call("refund"), "It is paid.", "It is paid.")
    async with processes(model, Bell(), takes=("others",)) as (web, _worker):
        turns = []
        for _ in range(2):
            turn = await (await web.conversation(CARLA, agent="clerk")).send("Please pay.")
            async for _ in turn.events(until="suspended"):
                pass
            turns.append(turn)
        for turn in turns:
            await web.approve(CARLA, f"{turn.id}:1.0")
            async for _ in turn.events():
                pass
            assert (await turn.read()).answer == "It is paid."


async def test_an_answer_wakes_a_worker_without_a_read_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Bell()
    async with processes(ScriptedModel(call("refund"), "It is paid."), bell, takes=("others",)) as (web, _worker):
        turn = await (await web.conversation(CARLA, agent="clerk")).send("refund it")
        async for _ in turn.events(until="suspended"):
            pass
        (wait,) = await web.approvals(CARLA)
        bell.rung.clear()
        read, reads = web.store.run, []

        async def run(scope: Any, run_id: str) -> Any:
            reads.append(run_id)
            return await read(scope, run_id)

        monkeypatch.setattr(web.store, "run", run)
        await web.approve(CARLA, wait.key)
        assert (bell.rung[0], reads) == ("cmd.agent.others.wakeup", [])
        monkeypatch.undo()
        async for _ in turn.events():
            pass
        assert (await turn.read()).answer == "It is paid."


async def test_a_worker_has_so_many_runs_at_the_same_time() -> None:
    most = running = 0

    async def answer() -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    model = ScriptedModel(*[Answer(text="hello you", midway=answer) for _ in range(7)])
    async with processes(model, Bell(), coroutines=2) as (web, _worker):
        turns = [await (await web.conversation(CARLA, agent="desk")).send("hello") for _ in range(7)]
        for turn in turns:
            assert [event async for _, event in turn.events()][-1].result.status == "completed"
    assert most == 2


async def test_an_approval_at_a_web_process_wakes_the_worker() -> None:
    model = ScriptedModel(call("refund"), "Done.")
    async with processes(model, Bell(), takes=("others",)) as (web, _worker):
        turn = await (await web.conversation(CARLA, agent="clerk")).send("refund it")
        async for _ in turn.events(until="suspended"):
            pass
        (wait,) = await web.approvals(CARLA)
        await web.approve(CARLA, wait.key)
        assert web.live(OPERATOR, turn.id) is None
        assert [event async for _, event in turn.events()][-1].result.text == "Done."


async def test_an_approval_between_a_suspension_and_the_release_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_QUIET", 0.0)
    monkeypatch.setattr(watchdog, "_HEAD_START", 0.0)
    async with processes(ScriptedModel(call("refund"), "Done."), Bell(), takes=("others",)) as (web, worker):
        release, answered = worker.store.release, False

        async def late(claim: Claim) -> None:
            nonlocal answered
            if not answered:
                answered = True
                (wait,) = await web.approvals(CARLA)
                await web.approve(CARLA, wait.key)
                for _ in range(300):  # the look for the ring ends, while the run has its claim
                    await asyncio.sleep(0)
            await release(claim)

        monkeypatch.setattr(worker.store, "release", late)
        turn = await (await web.conversation(CARLA, agent="clerk")).send("refund it")
        assert [event async for _, event in turn.events()][-1].result.text == "Done."


async def test_the_turn_after_an_approved_one_begins_when_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_HEAD_START", 0.0)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await goes_on.wait()

    model = ScriptedModel(call("refund"), Answer(text="Done.", midway=hold), "And hello.")
    async with processes(model, Bell(), takes=("others",)) as (web, worker):
        conversation = await web.conversation(CARLA, agent="clerk")
        turn = await conversation.send("refund it")
        async for _ in turn.events(until="suspended"):
            pass
        following = await conversation.send("hello", when_busy="queue")
        (wait,) = await web.approvals(CARLA)
        await web.approve(CARLA, wait.key)
        await begun.wait()
        await worker.look()
        for _ in range(100):  # the look for the answer ends: a store in memory answers at once
            await asyncio.sleep(0)
        goes_on.set()
        assert [event async for _, event in following.events()][-1].result.text == "And hello."


async def test_messages_during_a_turn_of_a_worker() -> None:
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def hold() -> None:
        begun.set()
        await gate.wait()

    model = ScriptedModel(Answer(text="a long answer", midway=hold), "the second", "the third")
    async with processes(model, Bell(), sweep=0.01) as (web, _worker):
        conversation = await web.conversation(CARLA, agent="desk")
        first = await conversation.send("first", key="k")
        await begun.wait()
        with pytest.raises(ConversationBusyError, match=first.id):
            await conversation.send("no", when_busy="refuse")
        assert (await conversation.send("first", key="k")).id == first.id
        assert (await conversation.send("more", when_busy="steer")).id == first.id
        second = await conversation.send("second")
        assert (await second.read()).state == "queued"
        urgent = await conversation.send("urgent", when_busy="interrupt")
        async for _ in urgent.events():
            pass
        async for _ in second.events():
            pass
        answers = {turn.run_id: (turn.state, turn.answer) for turn in await conversation.turns()}
    assert answers[first.id][0] == "cancelled"
    assert (answers[urgent.id][1], answers[second.id][1]) == ("the second", "the third")


async def test_a_message_that_is_sent_again_interrupts_if_the_first_time_did_not() -> None:
    """The web process may have ended between recording the message and stopping the turn in progress."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await gate.wait()

    model = ScriptedModel(Answer(text="a long answer", midway=hold), "the second")
    async with processes(model, Bell(), sweep=0.01) as (web, _worker), asyncio.timeout(60):
        conversation = await web.conversation(CARLA, agent="desk")
        first = await conversation.send("first", key="f", when_busy="interrupt")
        await begun.wait()
        assert (await conversation.send("first", key="f", when_busy="interrupt")).id == first.id
        assert (await first.read()).state == "running", "a message does not stop its own turn"
        second = await conversation.send("second", key="s")
        assert (await conversation.send("second", key="s", when_busy="interrupt")).id == second.id
        async for _ in second.events():
            pass
        assert [turn.state for turn in await conversation.turns()] == ["completed", "cancelled"]


async def test_a_parked_run_is_taken_at_once() -> None:
    """A worker that leaves rings for what it parks."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await gate.wait()

    bell = Bell()
    model = ScriptedModel(Answer(text="a long answer", midway=hold), "again")
    async with processes(model, bell) as (web, first):
        turn = await (await web.conversation(CARLA, agent="desk")).send("hello")
        await begun.wait()
        resources = Resources(store=web.store, models=lambda _: model, model=model)
        seat = Fleet(bell=bell, targets=TARGETS, takes=["desks"])
        async with joined(Runtime([Desk()], resources, sweep=NEVER), seat) as second:
            await second.look()
            await first.close()
            assert [event async for _, event in turn.events()][-1].result.text == "again"


async def test_the_limits_of_the_fleet_apply_where_a_run_has_none() -> None:
    class Small(ScriptedModel):
        """A model of another provider."""

        provider = "small"

    store, tight = MemoryStore(), RateLimit(tokens_per_minute=1)
    own = Resources(
        store=store,
        models={"scripted:script": ScriptedModel("hello"), "small:script": Small()}.__getitem__,
        rate_limits={"scripted": SharedRateLimit(store, "mine")},
        retry=Retry(attempts=1),
    )
    fleet = Fleet(bell=LocalBell(), targets={}, rate_limits={"scripted": tight, "small": tight})

    async def text(resources: Any, model: str) -> str:
        async with joined(Runtime([Desk()], resources, store=store, sweep=NEVER), fleet) as runtime:
            run = await runtime.start(Chat("hello", scope=CARLA, model=model), "desk")
            result = await run.result()
            return result.error or result.text

    assert await text(own, "scripted:script") == "hello", "the run's own limit"
    for resources in (own, lambda *_: own):
        assert "admits 1 a minute" in await text(resources, "small:script")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": {"a.b": []}}, "invalid target 'a.b'"),
        ({"targets": {"a": ["x"], "b": ["x"]}}, "agent 'x' has two targets: 'a' and 'b'"),
        ({"targets": {"a": ["x"]}, "takes": ["b"]}, "unknown target 'b': choose from a, worker_generic"),
        ({"targets": {"a": ["x"]}, "takes": ["a", "a"]}, "target 'a' is listed twice: list it once"),
        ({"targets": {}, "coroutines": 0}, "coroutines"),
    ],
)
def test_invalid_fleets(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Fleet(bell=LocalBell(), **options)


async def test_a_run_that_is_started_by_name_runs_here() -> None:
    async with processes(ScriptedModel("hello"), Bell()) as (web, _worker):
        run = await web.start(Chat("hello", scope=CARLA), "desk")
        assert (await run.result()).text == "hello"


async def test_the_first_piece_of_an_answer_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are stored together when their time is over, or with the end of the answer."""
    monkeypatch.setattr(event_log, "RARE", NEVER)
    monkeypatch.setattr(event_window, "SECONDS", NEVER)
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="one two three four five six", midway=gate.wait))
    async with processes(model, Bell()) as (web, _worker), asyncio.timeout(120):
        turn = await (await web.conversation(CARLA, agent="desk")).send("hello")
        pieces = []
        async for _, event in turn.events():
            if isinstance(event, TextDelta):
                pieces.append((event.text, gate.is_set()))
                gate.set()
    assert pieces[0] == ("one ", False)
    assert len(pieces) > 2


async def until(items: AsyncIterator[Any], shows: Callable[[StoredConversation], bool]) -> None:
    """Read until a state of a conversation shows a change."""
    async for position, item in items:
        if not position and shows(item):
            return


async def test_a_bell_wakes_those_who_follow_a_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "RARE", NEVER)
    monkeypatch.setattr(conversation_watch, "RARE", NEVER)
    async with processes(ScriptedModel("hello you"), Bell()) as (web, worker), asyncio.timeout(120):
        conversation = await web.conversation(CARLA, agent="desk")
        async with aclosing(conversation.follow()) as items:
            assert (await anext(items))[0] == ""
            await conversation.send("hello")  # a worker answers
            async for _, item in items:
                if isinstance(item, RunEnded):
                    break
            there = await worker.conversation(CARLA, conversation.id)
            await there.set_title("Hello")
            await until(items, lambda found: found.title == "Hello")
            await there.delete()
            with pytest.raises(UnknownConversationError):
                await until(items, lambda _: False)


async def test_two_web_processes_that_refuse_accept_one_message() -> None:
    async with processes(ScriptedModel("hello"), Bell(broken=True)) as (web, _worker):
        conversation = await web.conversation(CARLA, agent="desk")
        sent = [conversation.send(text, when_busy="refuse") for text in ("one", "two")]
        found = await asyncio.gather(*sent, return_exceptions=True)
        (queued,) = await conversation.queue()
        (refused,) = [each for each in found if isinstance(each, ConversationBusyError)]
        assert refused.run_id == queued.run_id
        assert queued.run_id in [getattr(each, "id", "") for each in found]
