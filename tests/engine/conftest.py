"""Scenarios run the real engine against a scripted model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    Retry,
    RunEvent,
    RunResult,
    Tool,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.events import RunEnded
from concertino.storage import Entry, Head, Reservation
from concertino.testing import ScriptedModel


class Seen:
    """All events of a run, and its result."""

    def __init__(self, events: list[RunEvent]) -> None:
        self.events = events
        last = events[-1]
        assert isinstance(last, RunEnded)
        self.result: RunResult = last.result

    def of(self, kind: type[Any], path: str | None = None) -> list[Any]:
        """The events of one kind, of one agent if asked."""
        return [e for e in self.events if isinstance(e, kind) and path in (None, e.agent_path)]

    def kinds(self) -> list[str]:
        """The names of the events, in order."""
        return [type(event).__name__ for event in self.events]


class Reserving(MemoryStore):
    """Records what is reserved."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[Reservation] = []

    async def append(self, entry: Entry) -> Head:
        self.reserved += [entry.reserve] if entry.reserve is not None else []
        return await super().append(entry)


async def play(
    model: ScriptedModel,
    agent: AgentConfig[Any] | None = None,
    tools: list[Tool] | None = None,
    message: str = "go",
    **settings: Any,
) -> Seen:
    """Run *agent* to its end and gather everything."""
    limit = settings.pop("tool_call_limit", None)
    observers = settings.pop("observers", ())
    settings.setdefault("retry", Retry(attempts=1))
    shared = {field.name for field in dataclasses.fields(Resources)} & settings.keys()
    resources = Resources(**{name: settings.pop(name) for name in shared})
    chat = Chat(model=model, message=message, **settings)
    registry = None if tools is None else ToolRegistry(tools)
    orchestrator = ToolOrchestrator(
        chat,
        agent or AgentConfig(),
        registry,
        resources=resources,
        tool_call_limit=limit,
        observers=observers,
    )
    return Seen([event async for event in orchestrator.stream()])


Play = Callable[..., Any]


@pytest.fixture(name="play")
def play_fixture() -> Play:
    return play


@tool
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@pytest.fixture(name="add")
def add_fixture() -> Tool:
    return add
