"""Events that are there at the same time come together, and are the same as one by one, in every process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from concertino import AgentConfig, Chat, ModelRequest, Resources, Scope, SqliteStore
from concertino.errors import ConfigurationError
from concertino.events import RunEvent
from concertino.messages import AssistantMessage, Reasoning, Text
from concertino.providers import ModelEvent, ReasoningChunk, Reply, TextChunk
from concertino.runtime import Runtime
from concertino.usage import Tokens

ANN = Scope("acme", "ann")


class Desk(AgentConfig):
    """Answers."""

    name = "desk"


class Typing:
    """A model whose next piece comes when it is asked for, so that each piece can be a batch of its own."""

    provider, name = "test", "typing"

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[ModelEvent | None] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while (piece := await self.pieces.get()) is not None:
            yield piece
        parts = (Reasoning("so it is"), Text("one two"))
        yield Reply(AssistantMessage(parts, "end", self.name), Tokens(prompt=1, completion=1))

    async def close(self) -> None:
        """Close nothing."""


PIECES: list[ModelEvent] = [
    ReasoningChunk("so "),
    ReasoningChunk("it is"),
    TextChunk("one "),
    TextChunk("two"),
]


async def read(batches: Any, most: int = 1_000) -> list[tuple[int, RunEvent]]:
    """Return the events of *batches* up to number *most*."""
    found: list[tuple[int, RunEvent]] = []
    async with aclosing(batches):
        async for batch in batches:
            assert batch, "a batch is not empty"
            found += batch
            if found[-1][0] >= most:
                break
    return found


async def test_batches_have_the_events_that_come_one_by_one_in_every_process(tmp_path: Path) -> None:
    path, model = tmp_path / "runs.db", Typing()
    async with await SqliteStore.open(path) as store, Runtime([Desk()], Resources(model=model, store=store)) as process:
        conversation = await process.conversation(ANN, agent="desk")
        turn = await conversation.send("go")
        live = turn.event_batches()
        seen = list(await anext(live))
        for piece in PIECES:  # each is stored before the next one comes
            model.pieces.put_nowait(piece)
            count = len(seen)
            while len(seen) == count:
                seen += await anext(live)
        async with await SqliteStore.open(path) as other, Runtime([Desk()], Resources(store=other)) as second:
            stored = await read(second.event_batches(ANN, turn.id), seen[-1][0])
            alone = [numbered async for numbered in _until(second, turn.id, seen[-1][0])]
        model.pieces.put_nowait(None)
        seen += await read(live)
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert stored == alone == seen[: len(stored)]
    assert [getattr(event, "text", "") for _, event in stored[-4:]] == ["so ", "it is", "one ", "two"]


async def _until(process: Runtime, run_id: str, last: int) -> AsyncIterator[tuple[int, RunEvent]]:
    async with aclosing(process.events(ANN, run_id)) as events:
        async for numbered in events:
            yield numbered
            if numbered[0] == last:
                return


async def test_a_reader_of_batches_is_checked_like_any_other(tmp_path: Path) -> None:
    async with Runtime([Desk()], Resources(model=Typing())) as process:
        run = await process.start(Chat("go", scope=ANN), "desk")
        with pytest.raises(ConfigurationError, match="invalid until"):
            process.event_batches(ANN, run.id, until="never")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            process.event_batches(ANN, run.id, -1)
