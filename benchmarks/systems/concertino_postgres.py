"""concertino on PostgreSQL: an answer is stored before its tools run, their results before the next model call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.common import QUESTION, Outcome
from benchmarks.systems.concertino import NO_LIMIT, ScriptedModel, booked
from concertino import AgentConfig, Chat, Resources, ToolOrchestrator, tool
from concertino.storage import PostgresStore

DISTRIBUTIONS: tuple[str, ...] = ("concertino",)


class _Durable:
    def __init__(self, function: Callable[..., Any]) -> None:
        class Agent(AgentConfig[None]):
            tools = (tool(effect="read")(function),)
            tool_call_limit = NO_LIMIT

        self._agent = Agent()
        self._store: PostgresStore | None = None
        self._resources = Resources()

    async def open(self, url: str) -> None:
        self._store = await PostgresStore.open(url)
        self._resources = Resources(model=ScriptedModel(), store=self._store)

    async def run(self) -> Outcome:
        result = await ToolOrchestrator(Chat(QUESTION), self._agent, resources=self._resources).run()
        return Outcome(result.text, lambda: booked(result))

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


def build(function: Callable[..., Any]) -> _Durable:
    """Return an agent with one tool."""
    return _Durable(function)
