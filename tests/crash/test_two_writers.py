"""Two processes that send to one conversation at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from concertino import Resources, Runtime, SqliteStore
from concertino.runtime import ConversationTurn

from .conversation_program import Echo
from .talker import ANN, Desk

MESSAGES = [f"m{number}" for number in range(12)]


async def sent(runtime: Runtime, first: bool) -> dict[str, str]:
    """Send each message, every third with an interruption. Return the turns by key, when all have ended."""
    conversation = await runtime.conversation(ANN, "c", agent="desk")

    async def one(number: int, message: str) -> ConversationTurn:
        when_busy = "interrupt" if first and number % 3 == 2 else "queue"
        return await conversation.send(message, key=message, when_busy=when_busy)  # type: ignore[arg-type]

    turns = await asyncio.gather(*[one(number, message) for number, message in enumerate(MESSAGES)])
    for turn in turns:
        assert (await turn.result()).status in ("completed", "cancelled")
    return {message: turn.id for message, turn in zip(MESSAGES, turns, strict=True)}


async def test_two_processes_agree_on_every_turn(tmp_path: Path) -> None:
    """Each key has one turn, all turns are on one branch, and each follows the one before."""
    path, go = tmp_path / "talk.db", asyncio.Event()
    go.set()
    async with await SqliteStore.open(path) as one, await SqliteStore.open(path) as other:
        runtimes = [Runtime([Desk()], Resources(store=store, model=Echo(go)), sweep=0.02) for store in (one, other)]
        async with runtimes[0], runtimes[1]:
            here, there = await asyncio.gather(sent(runtimes[0], first=True), sent(runtimes[1], first=False))
            conversation = await runtimes[0].conversation(ANN, "c")
            turns = list(reversed(await conversation.turns()))
            assert here == there
            assert {turn.message: turn.run_id for turn in turns} == here
            assert len(await one.all_turns(ANN, "c")) == len(MESSAGES)
            assert [turn.parent for turn in turns] == ["", *[turn.run_id for turn in turns[:-1]]]
            for number, turn in enumerate(turns):
                if turn.state == "completed":
                    assert turn.answer == " ".join(each.message for each in turns[: number + 1])
