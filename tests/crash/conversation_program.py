"""Every operation of a conversation, killed before and after each call of the store.

    python -m tests.crash.conversation_program FOLDER FIRST STEP

prints a line of JSON for the points FIRST, FIRST + STEP and so on: the state that recovery and a repetition leave.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from concertino import Conversation, ModelRequest, Resources, Runtime, Scope, SqliteStore, UserMessage
from concertino.errors import ConversationError
from concertino.events import RunEnded
from concertino.messages import AssistantMessage, Text
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.storage import Store
from concertino.usage import Tokens

from .talker import ANN, Desk, live, note

BOB = Scope("rival", "bob")


class Echo:
    """A model that answers with the user's messages, "slow" only after *go*."""

    provider, name = "scripted", "echo"

    def __init__(self, go: asyncio.Event) -> None:
        self.go = go

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer."""
        asked = [message.text for message in request.messages if isinstance(message, UserMessage)]
        text = " ".join(asked)
        yield TextChunk(text)
        if asked[-1] == "slow":
            await self.go.wait()
        yield Reply(AssistantMessage((Text(text),), "end", self.name), Tokens(1, 1))

    async def close(self) -> None:
        """Release nothing."""


class Counted:
    """A store whose process dies before or after the call with a number."""

    def __init__(self, store: Store, folder: Path, nth: int) -> None:
        self._store, self._folder, self._left = store, folder, nth

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def called(*args: Any, **named: Any) -> Any:
            self._pass(f"{name}:before")
            value = await found(*args, **named)
            self._pass(f"{name}:after")
            return value

        return called

    def _pass(self, point: str) -> None:
        self._left -= 1
        if self._left == 0:
            note(self._folder, "point", point)
            os.kill(os.getpid(), signal.SIGKILL)


async def talk(runtime: Runtime, folder: Path, stage: str) -> None:
    """Do everything once, and write down the accepted messages."""
    conversation = await runtime.conversation(ANN, "c", agent="desk")

    async def ended(name: str, turn: Any) -> str:
        note(folder, stage, [name, turn.id])
        await turn.result()
        return str(turn.id)

    one = await ended("one", await conversation.send("one", key="one"))
    uno = await ended("uno", await conversation.edit(one, "uno", key="uno", when_busy="queue"))
    again = await ended("again", await conversation.regenerate(one, key="again", when_busy="queue"))
    await conversation.branch(one)
    await conversation.switch(uno)
    await conversation.set_title("Numbers")
    assert await conversation.title() == "Numbers"
    await conversation.rate(again, "up", "good")
    slow = await conversation.send("slow", key="slow")
    note(folder, stage, ["slow", slow.id])
    await conversation.withdraw((await conversation.send("never", key="never")).id)
    last = await conversation.send("last", key="last")
    now = await conversation.send("now", key="now", when_busy="interrupt")
    for name, turn in (("now", now), ("last", last)):
        await ended(name, turn)
    json.dumps(await conversation.export())
    other = await runtime.conversation(ANN, "d", agent="desk")
    await ended("other", await other.send("other", key="other"))
    await other.delete()


async def first(folder: Path, nth: int) -> None:
    """Die at a point."""
    async with await SqliteStore.open(folder / "talk.db") as opened:
        store: Any = Counted(opened, folder, nth)
        async with Runtime([Desk()], Resources(store=store, model=Echo(asyncio.Event())), sweep=0.02) as runtime:
            await talk(runtime, folder, "before")


async def second(folder: Path) -> None:
    """Let the watchdog do what is left, do everything again, and write down the state."""
    go = asyncio.Event()
    go.set()
    async with await SqliteStore.open(folder / "talk.db") as store:
        async with Runtime([Desk()], Resources(store=store, model=Echo(go)), sweep=0.02) as runtime:
            rival = await runtime.conversation(BOB, "c", agent="desk")
            assert (await (await rival.send("hello")).result()).text == "hello"
            conversation = await runtime.conversation(ANN, "c", agent="desk")
            while (await conversation.read()).busy:  # noqa: ASYNC110 - the watchdog does not announce what it does
                await asyncio.sleep(0.005)
            note(folder, "left", [turn.run_id for turn in await store.all_turns(ANN, "c")])
            await talk(runtime, folder, "after")
            note(folder, "turns", sorted([turn.message, turn.state] for turn in await store.all_turns(ANN, "c")))
            note(folder, "title", (await conversation.read()).title)
            note(folder, "logs", [await log(conversation, turn.run_id) for turn in await store.all_turns(ANN, "c")])
        with suppress(ConversationError):
            note(folder, "undeleted", len(await store.all_turns(ANN, "d")))
    note(folder, "recovered", True)


async def log(conversation: Conversation, run_id: str) -> list[bool]:
    """Return whether a turn's events are in order, and whether only the last one is its end."""
    seen = [numbered async for numbered in (await conversation.turn(run_id)).events()]
    numbers = [number for number, _ in seen]
    ends = [isinstance(event, RunEnded) for _, event in seen]
    return [numbers == sorted(set(numbers)), ends == [False] * (len(ends) - 1) + [True]]


def main(folder: Path, start: int, step: int) -> None:
    """Kill at every *step*th point until a life passes all of them."""
    for nth in range(start, 10_000, step):
        place = folder / str(nth)
        place.mkdir()
        survived = live(first(place, nth))
        live(second(place))
        notes = [json.loads(line) for line in (place / "notes").read_text().splitlines()]
        lists = ("before", "after")
        found: dict[str, Any] = {each: [value for name, value in notes if name == each] for each in lists}
        found |= {name: value for name, value in notes if name not in lists}
        print(json.dumps({"killed": not survived, **found}), flush=True)
        if survived:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
