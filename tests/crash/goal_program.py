"""A goal with a judge, in a process that kills itself at a point."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from concertino import Chat, ModelRequest, Resources, RunResult, SqliteStore, ToolContext, ToolOrchestrator, tool
from concertino.agents import GoalAgent
from concertino.events import CustomEvent
from concertino.messages import AssistantMessage, Text, ToolCall, ToolMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.testing import FaultyStore, Points
from concertino.usage import Tokens

from .lives import ANN, write


class Painter:
    """Paints a wall with each call, and claims to be done after each; as the judge, it counts the walls."""

    provider, name = "scripted", "painter"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        walls = sum(isinstance(message, ToolMessage) for message in request.messages)
        if request.output_schema is not None:
            text = json.dumps({"met": walls == 3, "reason": f"{walls} of 3 walls are painted."})
            message = AssistantMessage((Text(text),), "end", self.name)
        elif isinstance(request.messages[-1], ToolMessage):
            message = AssistantMessage((Text(f"Wall {walls} is painted, so I am done."),), "end", self.name)
        else:
            call = ToolCall(f"call_{walls}", "paint", json.dumps({"wall": walls + 1}))
            message = AssistantMessage((call,), "tool_calls", self.name)
        if message.text:
            yield TextChunk(message.text)
        yield Reply(message, Tokens(prompt=1, completion=1))

    async def close(self) -> None:
        """See the port."""


@tool(effect="idempotent")
async def paint(wall: int, context: ToolContext) -> str:
    """Paint a wall."""
    write(context.deps / "painted", context.key)
    await asyncio.sleep(0)
    return f"wall {wall} is painted"


async def run(folder: Path, points: Points, *, resume: bool = False) -> tuple[RunResult, list[dict[str, Any]]]:
    """Run or resume the agent on the store in *folder*; return its result and the judgments of this process."""
    judged: list[dict[str, Any]] = []
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        orchestrator = ToolOrchestrator(
            Chat("Paint the walls.", model=Painter(), scope=ANN),
            GoalAgent("painter", "three walls are painted", tools=(paint,)),
            resources=Resources(store=faulty, deps=folder),
            run_id="run_1",
            resume=resume,
        )
        async for event in orchestrator.stream():
            if isinstance(event, CustomEvent):
                judged.append(event.data)
        assert orchestrator.result is not None
        return orchestrator.result, judged
