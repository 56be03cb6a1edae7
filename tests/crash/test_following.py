"""Whoever watches a run may go and come back: the run does not notice, and nothing is missed or seen twice."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from concertino import MemoryStore, Resources, tool
from concertino.events import RunEnded, TextDelta, ToolDone, TurnCompleted
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call

from .kit import Desk, chat

TEXT = " ".join(f"word{number}" for number in range(40))


@tool(effect="read")
async def look(place: int) -> str:
    """Look."""
    return f"seen {place}"


async def followed(run: Any, pauses: int, gate: asyncio.Event | None = None) -> list[tuple[int, Any]]:
    """Read some events at a time, leave, and come back with the last number."""
    seen: list[tuple[int, Any]] = []
    while not seen or not isinstance(seen[-1][1], RunEnded):
        after, read = (seen[-1][0] if seen else 0), 0
        async with aclosing(run.events(after)) as events:
            async for number, event in events:
                seen.append((number, event))
                read += 1
                if read == pauses:
                    break
        if gate is not None and len(seen) > 20:
            gate.set()
        await asyncio.sleep(0)
    return seen


@pytest.mark.parametrize("pauses", [1, 3, 7, 1000])
async def test_a_reader_that_comes_back_misses_nothing(pauses: int) -> None:
    async with MemoryStore() as store:
        gate = asyncio.Event()
        if pauses > 20:
            gate.set()
        model = ScriptedModel(call("look", place=1), Answer(text=TEXT, midway=gate.wait))
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        run = await runtime.start(chat(model), Desk(look))
        one, other = await asyncio.gather(followed(run, pauses, gate), followed(run, 1000))
        result = await run.result()
        assert (result.status, result.text) == ("completed", TEXT)
        for seen in (one, other):
            numbers = [number for number, _ in seen]
            assert numbers == sorted(set(numbers)), "in order, and none twice"
            assert [type(event) for _, event in seen].count(RunEnded) == 1
            assert [type(event) for _, event in seen].count(ToolDone) == 1
            turns = [event for _, event in seen if isinstance(event, TurnCompleted)]
            assert [turn.message.text for turn in turns] == ["", TEXT]
            pieces = "".join(event.text for _, event in seen if isinstance(event, TextDelta))
            assert TEXT.startswith(pieces) or pieces == TEXT


async def test_a_reader_that_goes_for_good_stops_nothing() -> None:
    async with MemoryStore() as store:
        gate = asyncio.Event()
        model = ScriptedModel(Answer(text=TEXT, before=gate.wait))
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        run = await runtime.start(chat(model), Desk())
        reader = asyncio.create_task(followed(run, 1000))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])
        gate.set()
        assert (await run.result()).text == TEXT


async def test_who_comes_late_reads_turns_instead_of_pieces() -> None:
    async with MemoryStore() as store:
        model = ScriptedModel(Answer(text=TEXT))
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        run = await runtime.start(chat(model), Desk())
        await run.result()
        seen = await followed(run, 2)
        assert not [event for _, event in seen if isinstance(event, TextDelta)]
        assert [event.message.text for _, event in seen if isinstance(event, TurnCompleted)] == [TEXT]
