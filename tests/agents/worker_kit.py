"""A worker over a few numbers, its decisions, and its runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from concertino import Chat, Resources, RunEvent, RunResult, Tool, ToolOrchestrator, ToolRegistry, tool
from concertino.agents import LoopConfig, WorkerAgent, WorkerDefinition
from concertino.events import CustomEvent
from concertino.testing import ScriptedModel

SMALL, STRONG, WRITER = "scripted:small", "scripted:strong", "scripted:writer"


@tool(effect="read")
async def stats(year: int = 2025) -> str:
    """The number of records of a year."""
    return f"{year}: 120 records"


@tool(effect="read")
async def search(text: str) -> str:
    """Find records."""
    return f"rec-1, rec-2 contain {text}"


@tool(effect="idempotent")
async def mark(record: str) -> str:
    """Mark a record for review."""
    return f"marked {record}"


def decision(*calls: Any, confidence: str = "medium", **fields: Any) -> str:
    """Return the JSON of a decision; each call is a name, or a name with its arguments."""
    made = [(call, {}) if isinstance(call, str) else call for call in calls]
    return json.dumps(
        {
            "thinking": "",
            "tool_calls": [{"tool": name, "params": params} for name, params in made],
            "should_respond": "response" in fields,
            "confidence": confidence,
            **fields,
        }
    )


def respond(text: str = "120 records.", **fields: Any) -> str:
    """Return a decision that ends the run."""
    return decision(response=text, confidence="high", **fields)


def worker(tools: Sequence[Tool] = (stats, search, mark), parts: Any = (), **fields: Any) -> WorkerAgent:
    """Return a worker with an escalation model."""
    loop = {"escalation_model": STRONG, "synthesize_model": WRITER, **fields.pop("loop", {})}
    given = {"id": "clerk", "name": "Clerk", "system_prompt": "You know the records.", **fields}
    return WorkerAgent(WorkerDefinition(loop=loop, **given), ToolRegistry(tools), defaults=LoopConfig(), parts=parts)


class Played:
    """A run: its result, its events and the requests of each model."""

    def __init__(self, events: list[RunEvent], result: RunResult, models: dict[str, ScriptedModel]) -> None:
        self.events, self.result = events, result
        self.requests = {name: model.requests for name, model in models.items()}

    def custom(self, name: str) -> list[Any]:
        """Return the data of the events *name*."""
        own = [event for event in self.events if isinstance(event, CustomEvent)]
        return [event.data for event in own if event.name == f"worker.{name}"]

    @property
    def reason(self) -> Any:
        """Why the loop ended."""
        (ended,) = self.custom("ended")
        return ended["reason"]

    def last(self, request: int, model: str = "main") -> str:
        """Return the last message of a request."""
        return str(getattr(self.requests[model][request].messages[-1], "text", ""))


def cost_of(cents: int) -> Callable[..., tuple[Decimal, str]]:
    """Return prices at which each attempt costs *cents*."""
    return lambda *_: (Decimal(cents) / 100, "flat")


async def play(
    agent: WorkerAgent,
    *script: Any,
    strong: Sequence[Any] = (),
    small: Sequence[Any] = (),
    writer: Sequence[Any] = (),
    goal: str = "How many records?",
    **settings: Any,
) -> Played:
    """Run a worker with a script for each model; scripts that are not used up fail."""
    models = {
        "main": ScriptedModel(*script, name="main"),
        "strong": ScriptedModel(*strong, name="strong"),
        "small": ScriptedModel(*small, name="small"),
        "writer": ScriptedModel(*writer, name="writer"),
    }
    chat = Chat(goal, model=models["main"], **settings.pop("chat", {}))
    resources = Resources(models=lambda name: models[name.partition(":")[2]], **settings)
    orchestrator = ToolOrchestrator(chat, agent, resources=resources)
    events = [event async for event in orchestrator.stream()]
    for model in models.values():
        with model:
            pass
    assert orchestrator.result is not None
    return Played(events, orchestrator.result, models)
