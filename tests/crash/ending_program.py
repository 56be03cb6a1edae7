"""An agent whose tool ends the run, in a process that kills itself at a point of its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from concertino import OPERATOR, AgentConfig, Chat, Resources, RunResult, SqliteStore, ToolContext, ToolResult, tool
from concertino.runtime import Runtime
from concertino.testing import FaultyStore, Points, call
from tests.runtime.kit import Steady

from .lives import lines, write


@tool(effect="idempotent")
async def book(context: ToolContext) -> ToolResult:
    """Book the table. Only the first execution ends the run: a second one shows that its result was lost."""
    first = not lines(context.deps / "booked")
    write(context.deps / "booked", context.key)
    return ToolResult("Booked.", ends_run=first)


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "a table is free"


class Waiter(AgentConfig[None]):
    name = "waiter"
    tools = (look, book)


async def run(folder: Path, points: Points) -> RunResult:
    """Start the run or resume it."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        model = Steady(call("look"), [call("book"), call("look")], "It did not end.")
        async with Runtime([Waiter()], Resources(store=faulty, models=lambda _: model, deps=folder)) as runtime:
            stored = await store.run(OPERATOR, "run_1")
            if stored is not None and stored.end is not None:
                return await runtime.result(OPERATOR, "run_1")
            if stored is None:
                live = await runtime.start(Chat("go", model="scripted:script"), "waiter", run_id="run_1")
            else:
                live = await runtime.resume(OPERATOR, "run_1")
            return await live.result()
