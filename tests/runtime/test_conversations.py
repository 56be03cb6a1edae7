"""Conversations: turns of runs, in this process and in others, with every policy for a message during a turn."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Ask,
    Attachment,
    Budget,
    Chat,
    Conversation,
    DataPolicy,
    KeepFor,
    Limits,
    MemoryStore,
    ModelRequest,
    Resources,
    Retention,
    RunContext,
    Runtime,
    Scope,
    SqliteStore,
    ToolCall,
    UserMessage,
    tool,
)
from concertino.errors import (
    ConfigurationError,
    ConversationBusyError,
    ErasedError,
    RunStateError,
    UnknownConversationError,
    UnknownTurnError,
)
from concertino.messages import Media
from concertino.runtime import ConversationTurn
from concertino.runtime import conversation as conversations
from concertino.storage import Store
from concertino.testing import Answer, ScriptedModel, call

ANN = Scope("acme", "ann")
RIVAL = Scope("rival", "ann")


class Desk(AgentConfig[None]):
    name = "desk"


@tool(effect="once")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"{n}: " + "A line of what was found. " * 30


class Clerk(AgentConfig[None]):
    name = "clerk"
    tools = (pay,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


def echo(request: ModelRequest) -> str:
    """The users' messages that the model sees."""
    return " ".join(message.text for message in request.messages if isinstance(message, UserMessage))


def echoes(count: int = 50) -> ScriptedModel:
    return ScriptedModel(*[echo] * count)


def process(store: Store, model: ScriptedModel, *agents: AgentConfig[Any], **settings: Any) -> Runtime:
    """Another process, as it were."""
    return Runtime(agents or (Desk(),), Resources(model=model, store=store, models=lambda _: model, **settings))


async def say(conversation: Conversation, message: str | Chat, **settings: Any) -> str:
    turn = await conversation.send(message, **settings)
    return (await turn.result()).text


async def shown(conversation: Conversation) -> list[str]:
    return [turn.message for turn in reversed(await conversation.turns())]


async def until(asked: Callable[[], Awaitable[Any]]) -> Any:
    while not (answer := await asked()):  # noqa: ASYNC110 - a store does not announce its changes
        await asyncio.sleep(0.002)
    return answer


class Held:
    """A model whose first answer waits until it is let go."""

    def __init__(self, *after: Any) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.model = ScriptedModel(Answer(text="first", midway=self._wait), *(after or [echo] * 20))

    async def _wait(self) -> None:
        self.asked.set()
        await self.go.wait()


# -- turns -------------------------------------------------------------------------------------------------------------


async def test_turns_see_one_another_in_every_process(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        here, there = process(first, echoes()), process(second, echoes())
        mine = await here.conversation(ANN, "c", agent="desk")
        assert await say(mine, "one") == "one"
        theirs = await there.conversation(ANN, "c")
        assert await say(theirs, "two") == "one two"
        assert await say(theirs, "three") == "one two three"
        assert await say(mine, "four") == "one two three four"
        assert await shown(mine) == ["one", "two", "three", "four"]
        await here.close()
        await there.close()


async def test_the_history_is_not_written_again() -> None:
    """`capabilities.md`, finding 5: the product carried the messages and the context of each turn by hand."""
    store = MemoryStore()
    conversation = await process(store, echoes()).conversation(ANN, agent="desk")
    turns = [await conversation.send(f"message {number}") for number in range(1)]
    await turns[0].result()
    sizes = []
    for number in range(5):
        turn = await conversation.send(f"message {number}")
        await turn.result()
        journal = await store.load(ANN, turn.id)
        assert journal is not None
        assert len(journal.history) == 2 * (number + 1)
        sizes.append(len(json.dumps(journal.entries[0].body)))
        assert not any("message" in text for text in journal.texts.values())
    assert max(sizes) - min(sizes) < 10, "numbers and times differ in length"


async def test_regenerate_edit_branch_and_switch() -> None:
    conversation = await process(MemoryStore(), echoes()).conversation(ANN, agent="desk")
    one = await conversation.send("one")
    await one.result()
    two = await conversation.send(Chat("two", personalization="Be brief."), mode="RAG")
    await two.result()
    again = await conversation.regenerate(two.id)
    assert (await again.result()).text == "one two", "the first answer and its message are on another branch"
    assert (await again.read()).mode == "RAG"
    assert (await again.read()).siblings == (two.id, again.id)
    other = await conversation.edit(two.id, "zwei")
    assert (await other.result()).text == "one zwei"
    await conversation.switch(two.id)
    assert await say(conversation, "three") == "one two three"
    await conversation.branch(one.id)
    assert await say(conversation, "drei") == "one drei"
    first = await conversation.edit(one.id, Chat("eins"))
    assert (await first.result()).text == "eins"
    assert await shown(conversation) == ["eins"]
    await conversation.switch(one.id)
    assert await shown(conversation) == ["one", "drei"]


async def test_an_edit_keeps_the_rest_of_the_chat() -> None:
    model = echoes()
    conversation = await process(MemoryStore(), model).conversation(ANN, agent="desk")
    turn = await conversation.send(Chat("one", personalization="Be brief.", attachments=[Attachment("a.pdf", "a map")]))
    await turn.result()
    await (await conversation.edit(turn.id, "uno")).result()
    await (await conversation.regenerate(turn.id)).result()
    prompts = {request.system for request in model.requests}
    assert len(prompts) == 1
    assert "Be brief." in prompts.pop()


async def test_a_turn_is_asked_again_with_all_that_it_was_started_with() -> None:
    """Otherwise a user's click on "again" ran without the limit of its budget."""
    store, model = MemoryStore(), echoes()
    conversation = await process(store, model).conversation(ANN, agent="desk")
    few_shot = {"scripted:script": [UserMessage("an example")], "other": [UserMessage("of another")]}
    budget = Budget(tokens=90_000, money=Decimal("0.5"))
    turn = await conversation.send(Chat("one", few_shot=few_shot, budget=budget, send_tools=False, chatbot_id="b"))
    await turn.result()
    again = await conversation.regenerate(turn.id)
    edited = await conversation.edit(again.id, "uno")
    assert (await again.result()).text == "an example one"
    assert (await edited.result()).text == "an example uno"
    for each in (turn, again, edited):
        assert [account.budget for account in await store.accounts(ANN, run_id=each.id)] == [budget]
        _, chat = await conversations.input_of(conversation, each.id)
        assert (chat.few_shot, chat.send_tools, chat.chatbot_id) == (few_shot, False, "b")


async def test_a_later_turn_with_examples_for_several_models_is_replayed_as_it_was_sent() -> None:
    model = echoes()
    runtime = process(MemoryStore(), model)
    conversation = await runtime.conversation(ANN, agent="desk")
    await say(conversation, "one")
    few_shot: Any = {("scripted:script", "other"): [UserMessage("an example")]}
    turn = await conversation.send(Chat("two", few_shot=few_shot))
    assert (await turn.result()).text == "an example one two"
    *_, (_, _, request) = await runtime.replay(ANN, turn.id)
    assert list(request.messages) == list(model.requests[-1].messages)


async def test_a_budget_outlives_the_text_of_its_turn() -> None:
    store = MemoryStore()
    conversation = await process(store, echoes(), Discreet("redact")).conversation(ANN, agent="desk")
    turn = await conversation.send(Chat("my secret", budget=Budget(tokens=90_000), send_tools=False))
    await turn.result()
    again = await conversation.regenerate(turn.id)
    assert (await again.result()).text == "[redacted]"
    assert len(await store.accounts(ANN, run_id=again.id)) == 1


async def test_the_same_key_is_the_same_turn(tmp_path: Path) -> None:
    """`adoption.md`, section 5: a double send was two runs that both saw "turn 1"."""
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        model = echoes()
        here, there = process(first, model), process(second, model)
        mine = await here.conversation(ANN, "c", agent="desk")
        theirs = await there.conversation(ANN, "c")
        sent = await asyncio.gather(*(each.send("one", key="k") for each in (mine, theirs) * 5))
        assert len({turn.id for turn in sent}) == 1
        assert {(await turn.result()).text for turn in sent} == {"one"}
        assert (await theirs.send("else", key="k")).id == sent[0].id
        assert len(model.requests) == 1
        await here.close()
        await there.close()


async def test_two_processes_that_send_at_once_get_one_turn_each_in_order(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        here, there = process(first, echoes()), process(second, echoes())
        mine = await here.conversation(ANN, "c", agent="desk")
        theirs = await there.conversation(ANN, "c")
        turns = await asyncio.gather(*(each.send(str(n)) for n, each in enumerate((mine, theirs) * 3)))
        texts = [(await turn.result()).text for turn in turns]
        order = await shown(mine)
        assert sorted(order) == [str(n) for n in range(6)]
        assert sorted(texts, key=len) == [" ".join(order[: n + 1]) for n in range(6)]
        await here.close()
        await there.close()


# -- a message during a turn -------------------------------------------------------------------------------------------


async def test_a_message_during_a_turn_is_queued() -> None:
    held = Held()
    conversation = await process(MemoryStore(), held.model).conversation(ANN, agent="desk")
    first = await conversation.send("one")
    await held.asked.wait()
    second = await conversation.send("two", key="k")
    third = await conversation.send("three")
    assert (await conversation.send("two", key="k")).id == second.id
    assert [turn.message for turn in await conversation.queue()] == ["two", "three"]
    assert (await conversation.read()).busy == first.id
    assert await conversation.withdraw(third.id)
    held.go.set()
    assert (await second.result()).text == "one two"
    assert await shown(conversation) == ["one", "two"]


async def test_a_queued_message_keeps_its_chat() -> None:
    held = Held()
    store = MemoryStore()
    conversation = await process(store, held.model).conversation(ANN, agent="desk")
    await conversation.send("one")
    await held.asked.wait()
    few_shot = {"scripted:script": [UserMessage("an example")]}
    chat = Chat(
        "two", personalization="Be brief.", few_shot=few_shot, budget=Budget(tokens=90_000), memories=["likes tea"]
    )
    turn = await conversation.send(dataclasses.replace(chat, send_tools=False))
    held.go.set()
    assert (await turn.result()).text == "an example one two"
    assert "likes tea" in held.model.requests[-1].system
    assert len(await store.accounts(ANN, run_id=turn.id)) == 1
    assert not (await conversations.input_of(conversation, turn.id))[1].send_tools


async def test_a_message_can_be_refused() -> None:
    held = Held()
    conversation = await process(MemoryStore(), held.model).conversation(ANN, agent="desk")
    turn = await conversation.send("one")
    await held.asked.wait()
    with pytest.raises(ConversationBusyError, match="choose another when_busy") as busy:
        await conversation.send("two", when_busy="refuse")
    assert busy.value.run_id == turn.id
    with pytest.raises(ConversationBusyError):
        await conversation.regenerate(turn.id)
    held.go.set()
    await turn.result()
    assert await say(conversation, "two", when_busy="refuse") == "one two"


async def test_a_message_can_interrupt() -> None:
    held = Held()
    conversation = await process(MemoryStore(), held.model).conversation(ANN, agent="desk")
    first = await conversation.send("one")
    await held.asked.wait()
    waiting = await conversation.send("two")
    urgent = await conversation.send("stop, three", when_busy="interrupt")
    assert (await first.result()).status == "cancelled"
    assert (await urgent.result()).text == "one stop, three"
    assert (await waiting.result()).text == "one stop, three two"


async def test_a_message_can_steer() -> None:
    held = Held(echo)
    conversation = await process(MemoryStore(), held.model).conversation(ANN, agent="desk")
    first = await conversation.send("one")
    await held.asked.wait()
    steered = await conversation.send("and two", when_busy="steer", key="k")
    again = await conversation.send("and two", when_busy="steer", key="k")
    assert steered.id == again.id == first.id
    held.go.set()
    assert (await first.result()).text == "one and two"


async def test_a_turn_that_waits_is_visible_and_blocks(tmp_path: Path) -> None:
    """`adoption.md`, section 5: a new run did not see the turn that waited for an approval."""
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        model = ScriptedModel(call("pay", euros=80), "done", echo)
        here, there = process(first, model, Clerk()), process(second, model, Clerk())
        mine = await here.conversation(ANN, "c", agent="clerk")
        turn = await mine.send("pay")
        result = await turn.result()
        assert result.status == "suspended", result.error
        theirs = await there.conversation(ANN, "c")
        assert [each.state for each in await theirs.turns()] == ["waiting"]
        with pytest.raises(RunStateError, match="waiting"):
            await (await theirs.turn(turn.id)).result()
        with pytest.raises(ConversationBusyError):
            await theirs.send("and?", when_busy="refuse")
        queued = await theirs.send("thanks")
        await there.approve(ANN, result.waiting[0].key)
        await there.look()
        assert (await (await theirs.turn(turn.id)).result()).text == "done"
        assert (await until(lambda: ended(theirs, queued.id))).answer == "pay thanks"
        assert (await theirs.read()).tools == ("pay",)
        await here.close()
        await there.close()


async def ended(conversation: Conversation, turn_id: str) -> Any:
    """The turn, when it has ended; the process looks for what is due."""
    await conversation._runs.look()  # type: ignore[attr-defined]
    turn = await (await conversation.turn(turn_id)).read()
    return turn if turn.state == "completed" else None


async def test_a_queued_turn_is_started_by_another_process(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        held = Held()
        here, there = process(first, held.model), process(second, echoes())
        mine = await here.conversation(ANN, "c", agent="desk")
        await mine.send("one")
        await held.asked.wait()
        queued = await mine.send("two")
        await here.close()  # parks the turn in progress
        theirs = await there.conversation(ANN, "c")
        assert (await until(lambda: ended(theirs, queued.id))).answer == "one two"
        await there.close()


async def test_the_events_of_a_turn_are_read_in_any_process(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        held = Held(echo)
        async with process(first, held.model) as here, process(second, echoes()) as there:
            turn = await (await here.conversation(ANN, "c", agent="desk")).send("one")
            queued = await (await there.conversation(ANN, "c")).send("two")
            elsewhere = await (await there.conversation(ANN, "c")).turn(turn.id)
            reading = [asyncio.create_task(numbers(each)) for each in (turn, elsewhere, queued)]
            await held.asked.wait()
            held.go.set()
            mine, theirs, later = await asyncio.gather(*reading)
            assert mine[-1] == theirs[-1]
            assert await numbers(elsewhere, after=theirs[-2]) == theirs[-1:]
            assert later == sorted(set(later))
            assert (await queued.read()).state == "completed"


async def numbers(turn: ConversationTurn, after: int = 0) -> list[int]:
    return [number async for number, _ in turn.events(after)]


async def test_a_message_with_media_cannot_steer() -> None:
    held = Held(echo)
    conversation = await process(MemoryStore(), held.model).conversation(ANN, agent="desk")
    turn = await conversation.send("one")
    picture = Chat("see", media=[Media("image/png", data="AAAA")])
    with pytest.raises(ConfigurationError, match="queue one with media"):
        await conversation.send(picture, when_busy="steer")
    held.go.set()
    await turn.result()


# -- the context -------------------------------------------------------------------------------------------------------


async def test_the_context_is_kept_with_the_turn(tmp_path: Path) -> None:
    """Another process continues the view: it edits nothing again, and sends what this one would have sent."""
    limits = Limits(context=4_000, output=200, tool_calls=100)
    retention = Retention(summaries=False)

    class Looker(AgentConfig[None]):
        name = "desk"
        tools = (look,)

    sent: list[list[Any]] = []
    for alone in (True, False):
        script = [step for turn in range(4) for step in (*(call("look", n=10 * turn + n) for n in range(8)), "ok " * 9)]
        model = ScriptedModel(*script)
        path = tmp_path / f"{alone}.db"
        for number in range(4):
            if number == 0 or not alone:
                store = await SqliteStore.open(path)
                settings = {"limits": lambda *_: limits, "retention": retention}
                runtime = process(store, model, Looker(), **settings)
                conversation = await runtime.conversation(ANN, "c", agent="desk")
            result = await (await conversation.send(f"turn {number}")).result()
            assert result.context is not None
            assert (await runtime.result(ANN, result.run_id)).context == result.context
            if number == 3:
                replayed = [list(request.messages) for _, _, request in await runtime.replay(ANN, result.run_id)]
                assert replayed == [list(request.messages) for request in model.requests[-len(replayed) :]]
            if number == 3 or not alone:
                await runtime.close()
                await store.close()
        assert len(result.context.edits) >= 2
        sent.append([list(request.messages) for request in model.requests])
    assert sent[0] == sent[1]


async def test_a_turn_writes_its_own_edits_only(tmp_path: Path) -> None:
    """The edits of earlier turns are named, not repeated, and the names do not become many."""
    limits, turns = Limits(context=3_000, output=200, tool_calls=100), 40
    retention = Retention(users=0, summaries=False)

    class Looker(AgentConfig[None]):
        name = "desk"
        tools = (look,)

    script = [step for turn in range(turns) for step in (*(call("look", n=10 * turn + n) for n in range(4)), "ok")]
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        settings = {"limits": lambda *_: limits, "retention": retention}
        async with process(store, ScriptedModel(*script), Looker(), **settings) as runtime:
            conversation = await runtime.conversation(ANN, "c", agent="desk")
            written = []
            for number in range(turns):
                result = await (await conversation.send(f"turn {number}")).result()
                journal = await store.load(ANN, result.run_id)
                assert journal is not None
                written.append(len(json.dumps([[entry.body, entry.content] for entry in journal.entries])))
            assert result.context is not None
            assert len(result.context.edits) > 10
            assert max(written[turns // 2 :]) < 1.5 * max(written[: turns // 2])


# -- the data policy ---------------------------------------------------------------------------------------------------


class Discreet(Desk):
    def __init__(self, text: Any) -> None:
        self._text = text

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text=self._text)


@pytest.mark.parametrize("text", ["redact", KeepFor(3600)])
async def test_the_next_turn_sees_what_the_policy_leaves(tmp_path: Path, text: Any) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        model = echoes()
        here, there = process(first, model, Discreet(text)), process(second, model, Discreet(text))
        mine = await here.conversation(ANN, "c", agent="desk")
        secret = await mine.send("my secret")
        await secret.result()
        expected = "my secret two" if isinstance(text, KeepFor) else "[redacted] two"
        assert await say(mine, "two") == expected
        theirs = await there.conversation(ANN, "c")
        assert (await say(theirs, "three")).startswith(expected.removesuffix("two"))
        assert await there.search(ANN, "secret") == ()
        if text == "redact":
            again = await mine.regenerate(secret.id)
            assert (await again.result()).text == "[redacted]"
        await here.close()
        await there.close()


async def test_what_was_dropped_cannot_be_asked_again() -> None:
    conversation = await process(MemoryStore(), echoes(), Discreet("drop")).conversation(ANN, agent="desk")
    turn = await conversation.send("my secret")
    await turn.result()
    with pytest.raises(ErasedError):
        await conversation.regenerate(turn.id)
    assert await conversation.title() == ""


# -- title, search, feedback, export, deletion -------------------------------------------------------------------------


async def test_the_title_is_written_once_and_billed(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        small = ScriptedModel(*['"A Good Title."\nmore'] * 3, name="small")
        here, there = process(first, echoes()), process(second, echoes())
        mine = await here.conversation(ANN, "c", agent="desk")
        assert await mine.title(small) == "", "there is nothing to write it from"
        await say(mine, "one")
        theirs = await there.conversation(ANN, "c")
        titles = await asyncio.gather(mine.title(small), mine.title(small), theirs.title(small))
        assert set(titles) <= {"A Good Title", ""}
        assert await theirs.title(small) == "A Good Title"
        assert len(small.requests) == 1
        sums = await first.usage_sums(ANN, ["user", "agent", "model"])
        assert [each.by for each in sums if "title" in each.by[1]] == [("ann", "conversation_title", "scripted:small")]
        assert len(await mine.turns()) == 1
        await mine.set_title("Mine")
        assert await theirs.title() == "Mine"
        await here.close()
        await there.close()


async def test_search_feedback_and_export() -> None:
    runtime = process(MemoryStore(), echoes())
    conversation = await runtime.conversation(ANN, agent="desk")
    turn = await conversation.send("Where is the Öl?")
    await turn.result()
    await runtime.look()
    assert [found.run_id for found in await runtime.search(ANN, "öl")] == [turn.id]
    assert await runtime.search(RIVAL, "öl") == ()
    await conversation.rate(turn.id, "up", "just right")
    with pytest.raises(ConfigurationError, match="choose 'up', 'down' or None"):
        await conversation.rate(turn.id, "sideways")  # type: ignore[arg-type]
    document = await conversation.export()
    assert json.loads(json.dumps(document)) == document
    assert (document["format"], document["version"]) == ("concertino-conversation", 1)
    (exported,) = document["turns"]
    assert exported["feedback"] == {"rating": "up", "text": "just right"}
    assert [message["role"] for message in exported["messages"]] == ["user", "assistant"]


async def test_a_deleted_conversation_is_gone() -> None:
    held = Held()
    runtime = process(MemoryStore(), held.model)
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    await conversation.send("one")
    await held.asked.wait()
    queued = await conversation.send("two")
    await conversation.delete()
    assert await runtime.conversations(ANN) == ()
    await runtime.look()
    assert await runtime.store.run(ANN, queued.id) is None
    for use in (conversation.send("three"), conversation.turns(), conversation.read(), runtime.conversation(ANN, "c")):
        with pytest.raises(UnknownConversationError):
            await use
    fresh = await runtime.conversation(ANN, "c", agent="desk")
    assert await say(fresh, "anew") == "anew"


# -- scopes and bad input ----------------------------------------------------------------------------------------------


async def test_another_scope_finds_nothing() -> None:
    runtime = process(MemoryStore(), echoes())
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    turn = await conversation.send("one")
    await turn.result()
    for scope in (RIVAL, Scope("acme"), Scope("acme", "bob"), Scope("", "ann")):
        assert await runtime.conversations(scope) == ()
        with pytest.raises(UnknownConversationError):
            await runtime.conversation(scope, "c")
        other = await runtime.conversation(scope, "c", agent="desk")
        for use in (other.turn(turn.id), other.regenerate(turn.id), other.branch(turn.id), other.rate(turn.id, "up")):
            with pytest.raises(UnknownTurnError):
                await use
        assert await say(other, "mine") == "mine"


@pytest.mark.parametrize(
    ("message", "settings", "problem"),
    [
        (" ", {}, "the message is empty"),
        (Chat("x", history=[UserMessage("y")]), {}, "history"),
        (Chat("x", conversation_id="other"), {}, "conversation_id"),
        ("x", {"when_busy": "later"}, "choose from queue, steer, interrupt, refuse"),
    ],
)
async def test_bad_input(message: Any, settings: dict[str, Any], problem: str) -> None:
    conversation = await process(MemoryStore(), echoes()).conversation(ANN, agent="desk")
    with pytest.raises(ConfigurationError, match=problem):
        await conversation.send(message, **settings)
    assert await conversation.turns() == ()


async def test_a_new_conversation_needs_an_agent() -> None:
    runtime = process(MemoryStore(), echoes())
    with pytest.raises(ConfigurationError, match="agent="):
        await runtime.conversation(ANN)
    with pytest.raises(ConfigurationError, match="no agent 'other'"):
        await runtime.conversation(ANN, agent="other")


async def test_media_are_part_of_the_history(tmp_path: Path) -> None:
    picture = Media("image/png", data="aGVsbG8=")
    async with await SqliteStore.open(tmp_path / "a.db") as first, await SqliteStore.open(tmp_path / "a.db") as second:
        here, model = process(first, echoes()), echoes()
        there = process(second, model)
        mine = await here.conversation(ANN, "c", agent="desk")
        turn = await mine.send(Chat("look", media=[picture]))
        await turn.result()
        theirs = await there.conversation(ANN, "c")
        assert await say(theirs, "and?") == "look and?"
        await (await theirs.regenerate(turn.id)).result()
        sent = [[m.media for m in request.messages if isinstance(m, UserMessage)] for request in model.requests]
        assert sent == [[(picture,), ()], [(picture,)]]
        await here.close()
        await there.close()


async def test_turns_with_media_are_found() -> None:
    picture = Media("image/png", data=base64.b64encode(b"\x89PNG\r\n\x1a\n a lamp").decode())
    model = ScriptedModel("a seen lamp", Answer(text="a drawn cat", media=(picture,)))
    async with process(MemoryStore(), model) as runtime:
        conversation = await runtime.conversation(ANN, agent="desk")
        seen = await conversation.send(Chat("what is it?", media=[picture]))
        await seen.result()
        made = await conversation.send("draw one")
        await made.result()
        await runtime.look()
        for word, turn in (("lamp", seen), ("drawn", made)):
            assert [found.run_id for found in await runtime.search(ANN, word)] == [turn.id]
