"""Many conversations and many readers in one process, and readers of what is erased."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from concertino import Conversation, MemoryStore, SqliteStore
from concertino.errors import ConversationError, UnknownConversationError, UnknownRunError
from concertino.events import RunEnded, RunEvent, TextDelta
from concertino.orchestrator import ToolOrchestrator
from concertino.runtime import ConversationTurn
from concertino.testing import Answer, ScriptedModel

from .test_conversations import ANN, Held, echo, echoes, process, say

READERS = 60


def count(*kinds: type) -> int:
    """Return how many objects of some classes are in memory."""
    gc.collect()
    return sum(isinstance(each, kinds) for each in gc.get_objects())


@pytest.mark.parametrize(
    "number", [pytest.param(160, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.sweep)]
)
async def test_idle_conversations_cost_no_memory(number: int) -> None:
    """A process keeps a bounded number of runs, logs and histories, however many conversations it has answered."""
    before = count(ToolOrchestrator)
    runtime = process(MemoryStore(), echoes(number))
    for each in range(number):
        conversation = await runtime.conversation(ANN, f"c{each}", agent="desk")
        assert await say(conversation, "hello") == "hello"
    assert count(ToolOrchestrator) - before <= 128
    assert len(await runtime.store.conversations(ANN, limit=2 * number)) == number
    await runtime.close()


async def read(turn: ConversationTurn, started: asyncio.Event, piece: str = "") -> tuple[list[int], RunEvent]:
    """Return the numbers of a turn's events, and the last event. *started* is set at a *piece* of the text."""
    numbers, last = [], None
    async for number, event in turn.events():
        numbers.append(number)
        last = event
        if isinstance(event, TextDelta) and piece in event.text:
            started.set()
    assert last is not None
    return numbers, last


@pytest.mark.parametrize("late", [False, True], ids=["from the beginning", "late"])
async def test_many_readers_of_a_turn_keep_its_events_once(late: bool) -> None:
    """Every reader sees the same numbers, and those that wait for more keep none of what they have read."""
    words, go = 400, asyncio.Event()
    model = ScriptedModel(Answer(text="word " * words + "last", midway=go.wait))
    runtime = process(MemoryStore(), model)
    turn = await (await runtime.conversation(ANN, "c", agent="desk")).send("go")
    before, started = count(TextDelta), [asyncio.Event() for _ in range(READERS)]
    readers = [asyncio.create_task(read(turn, started[0], "last"))]
    if late:
        await started[0].wait()
    readers += [asyncio.create_task(read(turn, each, "last")) for each in started[1:]]
    await asyncio.gather(*[each.wait() for each in started])
    left = readers.pop()
    left.cancel()
    await asyncio.wait([left])
    assert count(TextDelta) - before <= 2 * words
    go.set()
    found = await asyncio.gather(*readers)
    assert all(isinstance(last, RunEnded) for _, last in found)
    assert len({tuple(numbers) for numbers, _ in found}) == 1
    await runtime.close()


async def erased(how: str, conversation: Conversation, store: Any) -> None:
    """Erase a conversation in one of the ways."""
    if how == "delete":
        await conversation.delete()
    elif how == "delete in the store":
        await store.delete_conversation(ANN, conversation.id)
    else:
        await store.erase(ANN, force=True)


@pytest.mark.parametrize("how", ["delete", "delete in the store", "erase"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_a_reader_of_an_erased_turn_comes_to_an_end(tmp_path: Path, how: str, elsewhere: bool) -> None:
    """It is neither left waiting nor given what was erased, in whichever process it is."""
    path = tmp_path / "a.db"
    async with await SqliteStore.open(path) as first, await SqliteStore.open(path) as second:
        held = Held(*[echo] * 3)
        here, there = process(first, held.model), process(second, echoes())
        async with here, there:
            conversation = await here.conversation(ANN, "c", agent="desk")
            turn = await conversation.send("one")
            queued = await conversation.send("two")
            followed = await (await there.conversation(ANN, "c")).turn(turn.id) if elsewhere else turn
            waiting = await (await there.conversation(ANN, "c")).turn(queued.id) if elsewhere else queued
            started = asyncio.Event()
            reader, other = (asyncio.create_task(read(each, started)) for each in (followed, waiting))
            await started.wait()
            await erased(how, conversation, second if elsewhere else first)
            held.go.set()
            for each in await asyncio.gather(reader, other, return_exceptions=True):
                assert isinstance(each, (tuple, UnknownRunError, ConversationError)), each
            for runtime in (here, there):
                with pytest.raises(UnknownConversationError):
                    await runtime.conversation(ANN, "c")
                with suppress(UnknownRunError):
                    left = [event async for _, event in runtime.events(ANN, turn.id)]
                    assert "first" not in repr(left)
