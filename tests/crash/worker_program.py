"""A worker with pre-enrichment, passes, an approval and a synthesis, in a process that kills itself at a point."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from concertino import (
    Chat,
    ModelRequest,
    Resources,
    RunContext,
    RunResult,
    SqliteStore,
    ToolContext,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import PreEnrichment, WorkerAgent, WorkerDefinition, WorkerState
from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.testing import FaultyStore, Points
from concertino.usage import Tokens

from .lives import ANN, write


class Analyst:
    """Decides by the number of results that it has read, and writes down what it is asked."""

    provider, name = "scripted", "analyst"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        results = sum(isinstance(each, UserMessage) and each.text.startswith("[result of") for each in request.messages)
        text = self._answer(request, results)
        write(self._folder / "asked", f"{results} {text[:40]!r}")
        yield TextChunk(text)
        yield Reply(AssistantMessage((Text(text),), "end", self.name), Tokens(prompt=1, completion=1))

    def _answer(self, request: ModelRequest, results: int) -> str:
        if "You choose which tools" in request.system:
            return json.dumps([{"tool": "stats", "params": {"year": 2020}}])
        if request.output_schema is None:
            return "r1 is marked, of 120 records."
        calls = [("stats", {"year": 2024}), ("mark", {"record": "r1"})][results : results + 1]
        return json.dumps(
            {
                "thinking": "",
                "tool_calls": [{"tool": name, "params": params} for name, params in calls],
                "should_respond": False,
                "confidence": "high",
                "document_updates": {"findings": f"{results} results"},
            }
        )

    async def close(self) -> None:
        """See the port."""


@tool(effect="read")
async def stats(year: int) -> str:
    """Count."""
    await asyncio.sleep(0)
    return f"{year}: 120"


@tool(effect="once")
async def mark(record: str, context: ToolContext) -> str:
    """Mark a record."""
    write(context.deps / "marked", context.key)
    await asyncio.sleep(0)
    return f"marked {record}"


class Clerk(WorkerAgent):
    """Writes down its document when it ends."""

    async def conclude(self, run: RunContext[WorkerState], text: str) -> str:
        (run.deps / "document").write_text(run.agent_state.document.history("findings"))
        return await super().conclude(run, text)


def worker() -> WorkerAgent:
    definition = WorkerDefinition(
        id="clerk",
        name="Clerk",
        system_prompt="You mark records.",
        loop={"max_passes": 3},
        pre_enrichment=PreEnrichment(),
    )
    return Clerk(definition, ToolRegistry([stats, mark]))


async def run(folder: Path, points: Points, *, resume: bool = False) -> RunResult:
    """Run or resume the worker on the store in *folder*."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        orchestrator = ToolOrchestrator(
            Chat("mark r1", model=Analyst(folder), scope=ANN),
            worker(),
            resources=Resources(store=faulty, deps=folder),
            run_id="run_1",
            resume=resume,
        )
        return await orchestrator.run()


async def run_and_wait(folder: Path, points: Points) -> None:
    """Run the worker until it is suspended, and then wait until the process is killed."""
    await run(folder, points)
    write(folder / "suspended", "yes")
    await asyncio.Event().wait()  # between the approval card and its answer
