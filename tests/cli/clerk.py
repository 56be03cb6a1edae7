"""A runtime with a worker whose model follows rules: it marks a record and reports."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from concertino import ModelRequest, Resources, Runtime, SqliteStore, Tokens, ToolRegistry, tool
from concertino.agents import WorkerAgent, WorkerDefinition
from concertino.messages import AssistantMessage, Text, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk


@tool(effect="idempotent")
async def mark(record: str) -> str:
    """Mark a record."""
    return f"marked {record}"


class Rules:
    """Marks r1, and then reports the result."""

    provider, name = "scripted", "rules"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        results = [each.text for each in request.messages if isinstance(each, UserMessage) and each.tool]
        calls = [] if results else [{"tool": "mark", "params": {"record": "r1"}}]
        decision = {
            "thinking": "",
            "tool_calls": calls,
            "should_respond": bool(results),
            "response": "; ".join(results),
            "confidence": "medium",
            "document_updates": {"plan": "mark r1"},
        }
        text = json.dumps(decision)
        yield TextChunk(text)
        yield Reply(AssistantMessage((Text(text),), "end", self.name), Tokens(prompt=10, completion=5))

    async def close(self) -> None:
        """See the port."""


def make_runtime(store: SqliteStore) -> Runtime:
    """Return the runtime; for --app."""
    clerk = WorkerDefinition(
        id="clerk", name="Clerk", system_prompt="You mark records.", description="Marks.", approval_label="Mark it"
    )
    later = WorkerDefinition(id="later", name="Later", system_prompt="x", status="coming_soon")
    agents = [WorkerAgent(each, ToolRegistry([mark])) for each in (clerk, later)]
    model = Rules()
    return Runtime(agents, Resources(model=model, models=lambda _: model, store=store))
