"""An agent whose hooks and tools ask and call outside turns, in a process that kills itself at a point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from concertino import (
    AgentConfig,
    Chat,
    Message,
    ModelRequest,
    Resources,
    RunContext,
    RunResult,
    SqliteStore,
    SystemMessage,
    ToolContext,
    ToolError,
    ToolOrchestrator,
    tool,
)
from concertino.messages import AssistantMessage, Text, ToolCall, ToolMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.testing import FaultyStore, Points
from concertino.tools import Work
from concertino.usage import Tokens

from .lives import write


class Oracle:
    """Answers by the last message, and writes down what it is asked."""

    provider, name = "scripted", "oracle"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        last = request.messages[-1]
        text = (
            last.content
            if isinstance(last, ToolMessage)
            else last.text
            if not isinstance(last, AssistantMessage)
            else ""
        )
        write(self._folder / "asked", text)
        await asyncio.sleep(0)
        if request.tools and not isinstance(last, ToolMessage):
            calls = tuple(ToolCall(f"c{n}", "shop", f'{{"item": {n}}}') for n in (1, 2))
            yield Reply(AssistantMessage(calls, "tool_calls", self.name), Tokens(prompt=1))
            return
        yield TextChunk(f"re {text}")
        yield Reply(AssistantMessage((Text(f"re {text}"),), "end", self.name), Tokens(prompt=1, completion=1))

    async def close(self) -> None:
        """See the port."""


@tool(effect="once")
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    write(context.deps / "paid", context.key)
    await asyncio.sleep(0)
    return f"paid {amount}"


@tool(effect="idempotent")
async def shop(item: int, context: ToolContext) -> str:
    """Buy an item."""
    answers = await asyncio.gather(context.ask("which shop?"), context.ask(f"a price for {item}?"))
    return " ".join([*answers, await _paid(context, 1)])


class Buyer(AgentConfig[None]):
    name = "buyer"
    tools = (pay, shop)

    async def prepare(self, run: RunContext[None]) -> Sequence[Message]:
        answers = await asyncio.gather(run.ask("first?"), run.ask("second?"))
        return [SystemMessage(" ".join([*answers, await _paid(run, 1), await _paid(run, 1)]))]

    async def conclude(self, run: RunContext[None], text: str) -> str:
        answer: str = await run.ask("first?")
        return f"{answer} {await _paid(run, 1)}"


async def _paid(work: Work, amount: int) -> str:
    try:
        return str((await work.call("pay", {"amount": amount})).content)
    except ToolError as error:
        assert "OUTCOME_UNKNOWN" in str(error), error
        return "perhaps paid"


async def run(folder: Path, points: Points, *, resume: bool = False) -> RunResult:
    """Run or resume the agent on the store in *folder*."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        orchestrator = ToolOrchestrator(
            Chat("go", model=Oracle(folder)),
            Buyer(),
            resources=Resources(store=faulty, deps=folder),
            run_id="run_1",
            resume=resume,
        )
        return await orchestrator.run()
