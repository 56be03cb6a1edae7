"""concertino over HTTP, with one of its adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks.common import QUESTION, URL, Outcome
from benchmarks.systems.concertino import NO_LIMIT, booked
from concertino import AgentConfig, Chat, Resources, ToolOrchestrator, ToolRegistry, tool
from concertino.events import TextDelta
from concertino.providers.base import Model


class OverHttp:
    """An agent with one tool; *open_model* opens the adapter for an address."""

    def __init__(self, function: Callable[..., Any], open_model: Callable[[str], Model]) -> None:
        self._registry = ToolRegistry([tool(effect="read")(function)])
        self._open = open_model
        self._model: Model | None = None
        self._url = ""
        self._config: AgentConfig[None] = AgentConfig()
        self._resources = Resources()

    async def _engine(self) -> ToolOrchestrator:
        if self._url != URL.get():
            await self.close()
            self._url = URL.get()
            self._model = self._open(self._url)
        assert self._model is not None
        chat = Chat(model=self._model, message=QUESTION)
        return ToolOrchestrator(chat, self._config, self._registry, tool_call_limit=NO_LIMIT, resources=self._resources)

    async def run(self) -> Outcome:
        """Run the loop."""
        result = await (await self._engine()).run()
        return Outcome(result.text, lambda: booked(result))

    async def stream(self) -> AsyncIterator[str]:
        """Yield one answer in pieces."""
        async for event in (await self._engine()).stream():
            if isinstance(event, TextDelta):
                yield event.text

    async def close(self) -> None:
        """Close the adapter."""
        if self._model is not None:
            await self._model.close()
