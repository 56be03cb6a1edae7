"""A tree that runs into its limits, with questions of tools in sub-agents; its process kills itself at a point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from concertino import (
    AgentConfig,
    Budget,
    Chat,
    Limits,
    ModelRequest,
    Resources,
    RunResult,
    Scope,
    SqliteStore,
    ToolContext,
    ToolOrchestrator,
    delegate,
    tool,
)
from concertino.messages import AssistantMessage, Text, ToolCall, ToolMessage
from concertino.providers import ModelEvent, Reply
from concertino.testing import FaultyModel, FaultyStore, Points
from concertino.usage import Tokens

from .lives import write

SCOPE = Scope("acme", "ann")
BUDGET = 4_000
LIMITS = {
    "model_calls": Limits(model_calls=14),
    "all_tool_calls": Limits(all_tool_calls=5),
    "tokens": Limits(tokens=300),
    "steps": Limits(steps=3),
    "budget": Limits(context=2_000, output=100),
}


class Greedy:
    """Calls tools as long as it may, and writes down what it is asked."""

    provider, name = "scripted", "greedy"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        write(self._folder / "asked", "asked")
        await asyncio.sleep(0)
        number = sum(isinstance(message, ToolMessage) for message in request.messages)
        if not request.tools or request.tool_choice == "none":
            yield Reply(AssistantMessage((Text("enough"),), "end", self.name), Tokens(prompt=20, completion=2))
            return
        names = [spec.name for spec in request.tools]
        name = "child" if "child" in names else "dig"
        calls = tuple(ToolCall(f"c{number + n}", name, f'{{"query": "{number + n}"}}') for n in (1, 2))
        yield Reply(AssistantMessage(calls, "tool_calls", self.name), Tokens(prompt=20, completion=5))

    async def close(self) -> None:
        """See the port."""


@tool(effect="once")
async def pay(query: str, context: ToolContext) -> str:
    """Pay."""
    write(context.deps / "paid", context.key)
    return "paid"


@tool(effect="idempotent")
async def dig(query: str, context: ToolContext) -> str:
    """Dig."""
    answers = await asyncio.gather(context.ask(f"where is {query}?"), context.ask(f"how deep is {query}?"))
    await context.call("pay", {"query": query})
    return " ".join(answers)


class Child(AgentConfig[None]):
    name = "child"
    tools = (dig, pay)
    tool_call_limit = 3


class Boss(AgentConfig[None]):
    name = "boss"
    tools = (delegate(Child(), description="Digs."),)


async def run(folder: Path, points: Points, limit: str, *, resume: bool = False) -> RunResult:
    """Run or resume the tree on the store in *folder*."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        if limit == "budget":
            await store.set_budget(SCOPE, Budget(tokens=BUDGET))
        faulty: Any = FaultyStore(store, points)
        model: Any = FaultyModel(Greedy(folder), points)
        orchestrator = ToolOrchestrator(
            Chat("go", model=model, scope=SCOPE),
            Boss(),
            resources=Resources(store=faulty, deps=folder, limits=lambda *_: LIMITS[limit]),
            run_id="run_1",
            resume=resume,
        )
        return await orchestrator.run()
