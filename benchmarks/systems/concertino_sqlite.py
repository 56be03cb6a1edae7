"""concertino on SQLite: an answer is stored before its tools run, their results before the next model call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.common import QUESTION, Outcome
from benchmarks.systems.concertino import NO_LIMIT, ScriptedModel, booked
from concertino import AgentConfig, Chat, Resources, ToolOrchestrator, tool
from concertino.storage.sql.store import SqlStore
from concertino.storage.sqlite import SqliteStore

DISTRIBUTIONS: tuple[str, ...] = ("concertino",)


class Durable:
    """An agent with one tool, and its store."""

    def __init__(self, function: Callable[..., Any]) -> None:
        class Agent(AgentConfig[None]):
            tools = (tool(effect="read")(function),)
            tool_call_limit = NO_LIMIT

        self._agent = Agent()
        self._store: SqlStore | None = None
        self._resources = Resources()

    async def open(self, path: str) -> None:
        """Open the store."""
        self._store = await self._open(path)
        self._resources = Resources(model=ScriptedModel(), store=self._store)

    async def _open(self, path: str) -> SqlStore:
        return await SqliteStore.open(path)

    async def run(self) -> Outcome:
        """Run the agent."""
        result = await ToolOrchestrator(Chat(QUESTION), self._agent, resources=self._resources).run()
        return Outcome(result.text, lambda: booked(result))

    async def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            await self._store.close()


def build(function: Callable[..., Any]) -> Durable:
    """Return an agent with one tool."""
    return Durable(function)
