"""An agent with sub-agents in the background, in a process that kills itself at a point of its store.

Busy: the approval of a sub-agent is answered while its parent works, not while all wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from concertino import (
    OPERATOR,
    AgentConfig,
    Allow,
    Ask,
    Chat,
    ModelRequest,
    Resources,
    RunContext,
    RunResult,
    SqliteStore,
    ToolCall,
    ToolContext,
    UserMessage,
    delegate,
    tool,
)
from concertino.messages import AssistantMessage, Text, ToolMessage
from concertino.providers import ModelEvent, Reply
from concertino.runtime import Runtime
from concertino.testing import FaultyStore, Points
from concertino.usage import Tokens


class Oracle:
    """Answers by the conversation, so that every process gets the same answers."""

    provider, name = "scripted", "oracle"

    def __init__(self, *, busy: bool = False) -> None:
        self._busy = busy

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        await asyncio.sleep(0)
        results = [m for m in request.messages if isinstance(m, UserMessage) and m.tool == "buyer"]
        called = [m.name for m in request.messages if isinstance(m, ToolMessage)]
        if called and self._busy and "boss" in request.system and "work" not in called:
            yield Reply(AssistantMessage((ToolCall("c3", "work", "{}"),), "tool_calls", self.name), Tokens(prompt=1))
            return
        if called:
            text = f"{len(results)} of 2" if "boss" in request.system else "bought"
            yield Reply(AssistantMessage((Text(text),), "end", self.name), Tokens(prompt=1, completion=1))
            return
        calls = (ToolCall("c1", "buyer", '{"query": "ask"}'), ToolCall("c2", "buyer", '{"query": "buy"}'))
        if "boss" not in request.system:
            calls = (ToolCall("c1", "pay", f'{{"how": "{request.messages[0].text}"}}'),)  # type: ignore[union-attr,assignment]
        yield Reply(AssistantMessage(calls, "tool_calls", self.name), Tokens(prompt=1))

    async def close(self) -> None:
        """See the port."""


@tool(effect="idempotent")
async def pay(how: str, context: ToolContext) -> str:
    """Pay."""
    with (context.deps / "paid").open("ab", buffering=0) as file:
        file.write(f"{context.key}\n".encode())
    return "paid"


@tool(effect="read")
async def work(context: ToolContext) -> str:
    """Work until the sub-agent waits, and approve its call as another process does."""
    async with await SqliteStore.open(context.deps / "runs.db") as store:
        desk = Runtime([], Resources(store=store))
        while not (waits := await store.waits(OPERATOR, root_id="run_1", open=False)):  # noqa: ASYNC110 - see `until`
            await asyncio.sleep(0.002)
        for wait in waits:
            if wait.resolution is None:
                await desk.approve(OPERATOR, wait.key)
    return "worked"


class Buyer(AgentConfig[None]):
    name = "buyer"
    prompt = "You buy."
    tools = (pay,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        return Ask() if arguments["how"] == "ask" else Allow()


class Boss(AgentConfig[None]):
    name = "boss"
    prompt = "You are the boss."
    tools = (delegate(Buyer(), description="Buys.", background=True), work)


async def run(folder: Path, points: Points, *, busy: bool = False) -> RunResult:
    """Start the run or resume it, and approve what it asks for, until it has ended."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        resources = Resources(store=faulty, models=lambda _: Oracle(busy=busy), deps=folder)
        runtime = Runtime([Boss()], resources)
        while True:
            stored = await store.run(OPERATOR, "run_1")
            if stored is not None and stored.end is not None:
                return await runtime.result(OPERATOR, "run_1")
            if stored is None:
                live = await runtime.start(Chat("go", model=Oracle(busy=busy)), "boss", run_id="run_1")
            else:
                live = await runtime.resume(OPERATOR, "run_1")
            result = await live.result()
            if result.status != "suspended":
                await runtime.close()
                return result
            for wait in result.waiting:
                await runtime.approve(OPERATOR, wait.key)
