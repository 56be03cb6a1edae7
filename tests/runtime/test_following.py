"""Following a conversation: every reader, in any process, gets each state and every event of every turn, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Ask,
    Conversation,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    SqliteStore,
    ToolCall,
    tool,
)
from concertino.errors import ConfigurationError, StorageError, UnknownConversationError, UnknownTurnError
from concertino.events import CallWaiting, RunEnded, RunEvent, TextDelta
from concertino.storage import Store, StoredConversation
from concertino.testing import ScriptedModel, call

ANN = Scope("acme", "ann")
Item = tuple[str, StoredConversation | RunEvent]


@tool(effect="once")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (pay,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask()


def process(store: Store, *script: Any) -> Runtime:
    return Runtime([Desk()], Resources(model=ScriptedModel(*script), store=store), sweep=0.02)


@asynccontextmanager
async def two(path: Path, *script: Any) -> AsyncIterator[tuple[Conversation, Conversation]]:
    """Yield one conversation as two processes have it; the first one's model follows *script*."""
    async with (
        await SqliteStore.open(path) as one,
        await SqliteStore.open(path) as other,
        process(one, *script) as here,
        process(other, "there") as there,
    ):
        yield await here.conversation(ANN, "c", agent="desk"), await there.conversation(ANN, "c")


class Reader:
    """Follows a conversation in the background."""

    def __init__(self, conversation: Conversation, after: str = "") -> None:
        self.items: list[Item] = []
        self._more = asyncio.Condition()
        self.task = asyncio.create_task(self._read(conversation, after))

    async def _read(self, conversation: Conversation, after: str) -> None:
        async with aclosing(conversation.follow(after)) as followed:
            async for item in followed:
                self.items.append(item)
                async with self._more:
                    self._more.notify_all()

    async def until(self, asked: Callable[[Any], bool]) -> Any:
        """Return the newest item of which *asked* is true, as soon as there is one."""
        async with self._more:
            await self._more.wait_for(lambda: any(asked(item) for _, item in self.items))
        return next(item for _, item in reversed(self.items) if asked(item))

    async def ended(self, run_id: str) -> None:
        await self.until(lambda item: isinstance(item, RunEnded) and item.run_id == run_id and is_final(item))

    @property
    def events(self) -> list[Item]:
        return [(position, item) for position, item in self.items if not isinstance(item, StoredConversation)]

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def is_final(event: RunEnded) -> bool:
    return event.result.status != "suspended"


def is_state(**fields: Any) -> Callable[[Any], bool]:
    return lambda item: (
        isinstance(item, StoredConversation) and all(getattr(item, name) == value for name, value in fields.items())
    )


async def test_a_reader_in_another_process_sees_what_this_one_does(tmp_path: Path) -> None:
    async with two(tmp_path / "a.db", "one", "two", "again") as (here, there):
        reader = Reader(there)
        await reader.until(is_state(busy="", leaf=""))
        first = await here.send("eins")
        await reader.ended(first.id)
        second = await here.send("zwei")
        await reader.ended(second.id)
        again = await here.regenerate(second.id)
        await reader.ended(again.id)
        await reader.until(is_state(leaf=again.id, busy=""))
        await here.switch(second.id)
        await reader.until(is_state(leaf=second.id))
        await here.set_title("Numbers")
        await reader.until(is_state(title="Numbers"))
        turns = [first.id, second.id, again.id]
        await whole(reader, here, *turns)
        shown = [position for position, _ in reader.items]
        for each in turns:
            before = reader.items[: shown.index(f"{each}:1")]
            assert any(is_state(leaf=each)(item) for _, item in before), "a turn is known before its events"
        await reader.leave()


async def whole(reader: Reader, conversation: Conversation, *turns: str) -> None:
    """Check that *reader* got each event of *turns* once, in order; a log that has ended lacks replaced pieces."""
    got = [(turns.index(run_id), int(number)) for run_id, number in (each.split(":") for each, _ in reader.events)]
    assert got == sorted(set(got))
    missing = {(at, number) for at, each in enumerate(turns) for number, _ in await log(conversation, each)} - set(got)
    assert not missing


async def log(conversation: Conversation, run_id: str) -> list[tuple[int, RunEvent]]:
    return [numbered async for numbered in (await conversation.turn(run_id)).events()]


async def test_a_reader_continues_from_any_position(tmp_path: Path) -> None:
    async with two(tmp_path / "a.db", "one", "two", "three") as (here, there):
        turns = [await here.send(text) for text in ("eins", "zwei")]
        for turn in turns:
            await turn.result()
        events = [(f"{turn.id}:{number}", event) for turn in turns for number, event in await log(here, turn.id)]
        for at, (position, _) in enumerate(events):
            reader = Reader(there, position)
            third = None if at else await here.send("drei")
            if third is not None:
                await third.result()
                events += [(f"{third.id}:{number}", event) for number, event in await log(here, third.id)]
            last = events[-1][1]
            if at < len(events) - 1:
                await reader.until(lambda item: item == last)  # noqa: B023
            got = [each for each, _ in reader.events]
            assert set(got) >= {each for each, _ in events[at + 1 :]}
            assert not set(got) & {each for each, _ in events[: at + 1]}
            await reader.leave()


async def test_a_reader_that_comes_late_gets_the_turn_in_progress_from_its_start(tmp_path: Path) -> None:
    async with two(tmp_path / "a.db", [call("pay", euros=5)], "Done.") as (here, there):
        turn = await here.send("pay")
        reader, late = Reader(there), None
        await reader.until(lambda item: isinstance(item, CallWaiting))
        late = Reader(there)
        wait = await late.until(lambda item: isinstance(item, CallWaiting))
        queued = await here.send("next")
        await reader.until(lambda _: sum(is_state(busy=turn.id)(item) for _, item in reader.items) >= 2)
        assert await here.withdraw(queued.id)
        await there._runs.approve(ANN, wait.key)  # type: ignore[attr-defined]
        for each in (reader, late):
            await each.ended(turn.id)
            await whole(each, here, turn.id)
            assert any(isinstance(item, TextDelta) and item.text for _, item in each.events)
            await each.leave()


async def test_the_stream_ends_with_the_conversation_and_with_the_runtime(tmp_path: Path) -> None:
    async with two(tmp_path / "a.db", "one") as (here, there):
        gone, left = Reader(there), Reader(await here._runs.conversation(ANN, "d", agent="desk"))  # type: ignore[attr-defined]
        for reader in (gone, left):
            await reader.until(is_state(leaf=""))
        await here.delete()
        with pytest.raises(UnknownConversationError):
            await gone.task
    await left.task
    assert [item.id for _, item in left.items if isinstance(item, StoredConversation)] == ["d"]


@pytest.mark.parametrize("position", ["1", ":1", "x:", "x:-1", "x:1.5", "x:٣", f"x:{10**18}"])
async def test_an_invalid_position_is_refused(tmp_path: Path, position: str) -> None:
    async with two(tmp_path / "a.db") as (here, _):
        with pytest.raises(ConfigurationError, match="invalid position"):
            await anext(here.follow(position))
        with pytest.raises(UnknownTurnError):
            await anext(here.follow("x:1"))


async def test_a_failing_store_ends_the_stream(tmp_path: Path) -> None:
    class Failing(SqliteStore):
        fails = False

        async def conversation_marks(self, *arguments: Any) -> Any:
            if self.fails:
                raise StorageError("the disk is full")
            return await super().conversation_marks(*arguments)

    async with await Failing.open(tmp_path / "a.db") as store, process(store) as runtime:
        reader = Reader(await runtime.conversation(ANN, "c", agent="desk"))
        await reader.until(is_state(leaf=""))
        store.fails = True
        with pytest.raises(StorageError, match="disk is full"):
            await reader.task


def test_a_runtime_serves_readers_in_the_next_event_loop_too() -> None:
    async def once(runtime: Runtime, text: str) -> None:
        async with runtime:
            conversation = await runtime.conversation(ANN, agent="desk")
            reader = Reader(conversation)
            await reader.until(is_state(leaf=""))
            await conversation.set_title(text)
            await reader.until(is_state(title=text))
            await reader.ended((await conversation.send(text)).id)
            await reader.leave()
            watchdog = next(each for each in asyncio.all_tasks() if each.get_name() == "concertino watchdog")
            assert not watchdog.done()

    runtime = process(MemoryStore(), "one", "two")
    for text in ("eins", "zwei"):
        asyncio.run(once(runtime, text))


def test_a_runtime_claims_work_in_the_next_event_loop_too() -> None:
    class Busy(MemoryStore):
        """Lets other looks begin while one claims turns or trees."""

        async def claim_turns(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            return await super().claim_turns(*arguments, **options)

        async def claim_due(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            return await super().claim_due(*arguments, **options)

        async def due(self, *arguments: Any, **options: Any) -> Any:
            return replace(await super().due(*arguments, **options), ready=["r1"])

    async def look(runtime: Runtime) -> None:
        async with runtime:
            await asyncio.gather(*[runtime.look() for _ in range(3)])

    runtime = process(Busy())
    for _ in range(2):
        asyncio.run(look(runtime))
