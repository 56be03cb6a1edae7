"""A workflow with all kinds of steps, in a process that kills itself at a point."""

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
    tool,
)
from concertino.agents import (
    AgentStep,
    FileKnowledge,
    HumanStep,
    Loop,
    PlannedStep,
    ScriptedStep,
    Verifier,
    Workflow,
    WorkflowAgent,
    WorkflowState,
)
from concertino.messages import AssistantMessage, Text, ToolCall
from concertino.providers import ModelEvent, Reply, TextChunk, ToolCallReady
from concertino.testing import FaultyStore, Points
from concertino.usage import Tokens

from .lives import ANN, write

NOTES = "Looked at everything that the step names, and found two risks."


class Analyst:
    """Does each step by what the request contains."""

    provider, name = "scripted", "analyst"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        if request.output_schema is None:
            made = self._call(request)
            yield ToolCallReady(made)
            yield Reply(AssistantMessage((made,), "tool_calls", self.name), Tokens(prompt=1, completion=1))
            return
        text = self._answer(request)
        yield TextChunk(text)
        yield Reply(AssistantMessage((Text(text),), "end", self.name), Tokens(prompt=1, completion=1))

    def _call(self, request: ModelRequest) -> ToolCall:
        texts = [str(getattr(each, "text", "")) for each in request.messages]
        begun = max(number for number, text in enumerate(texts) if text.startswith("# Step read"))
        looked = any(getattr(each, "name", "") == "look" for each in request.messages[begun:])
        count = f"call-{len(request.messages)}"
        if not looked:
            return ToolCall(count, "look", json.dumps({"name": texts[begun].split()[-1]}))
        return ToolCall(count, "complete_step", json.dumps({"notes": NOTES, "context": {"risk": "low"}}))

    def _answer(self, request: ModelRequest) -> str:
        if "verify the work" in request.system:
            return json.dumps({"assessment": "pass", "reasoning": "", "instruction": ""})
        if "You plan" in request.system:
            items = [("look", {"name": "x"}), ("ship", {"version": "2"}), ("complete_step", {})]
            made = [{"tool": name, "params": params, "expected_outcome": "done"} for name, params in items]
            return json.dumps({"items": made})
        return json.dumps({"notes": NOTES, "context": {}, "unmet": []})

    async def close(self) -> None:
        """See the port."""


@tool(effect="read")
async def look(name: str) -> str:
    """Look."""
    await asyncio.sleep(0)
    return f"{name} is red"


@tool(effect="once")
async def ship(version: str, context: ToolContext) -> str:
    """Ship a version."""
    write(context.deps / "shipped", version)
    await asyncio.sleep(0)
    return f"shipped {version}"


FLOW = Workflow(
    name="flow",
    steps=[
        Loop(
            each="names",
            item="name",
            steps=[
                AgentStep(
                    id="read",
                    prompt="Look at $name",
                    tools=("look",),
                    sets={"risk": "low or high"},
                    verifier=Verifier(),
                )
            ],
        ),
        HumanStep(id="ask", question="Ship?", output="when"),
        ScriptedStep(id="ship", tool="ship", arguments={"version": "1"}, output="shipped", on_error="continue"),
        PlannedStep(id="plan", prompt="Ship again.", tools=("look", "ship")),
    ],
    variables={"names": ["a", "b"]},
    answer="$risk $when",
)


class Flow(WorkflowAgent):
    """Writes down its visits when it ends."""

    async def conclude(self, run: RunContext[WorkflowState], text: str) -> str:
        visits = [f"{each.number} {each.id} {each.status} {each.by}".strip() for each in run.agent_state.visits]
        (run.deps / "visits").write_text("\n".join(visits))
        return await super().conclude(run, text)


def workflow(folder: Path) -> WorkflowAgent:
    return Flow(FLOW, [look, ship], knowledge=FileKnowledge(folder / "facts"), root=folder)


async def run(folder: Path, points: Points, *, resume: bool = False) -> RunResult:
    """Run or resume the workflow on the store in *folder*."""
    async with await SqliteStore.open(folder / "runs.db") as store:
        faulty: Any = FaultyStore(store, points)
        orchestrator = ToolOrchestrator(
            Chat("the release", model=Analyst(), scope=ANN),
            workflow(folder),
            resources=Resources(store=faulty, deps=folder),
            run_id="run_1",
            resume=resume,
        )
        return await orchestrator.run()
