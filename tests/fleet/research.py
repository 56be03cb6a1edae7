"""The product of `make fleet`: a supervisor, and researchers that run on another target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from concertino import ModelRequest, Resources, Runtime, ToolRegistry, delegate
from concertino.agents import DeepResearchSupervisor, ResearcherAgent
from concertino.demo.model import DemoModel
from concertino.providers import ModelEvent
from concertino.storage import Store
from concertino.tools.builtin import ResearchTools
from concertino.wiring import open_library, token_counter

LEASE = 2.0
"""Seconds after which another worker takes the runs of a killed one; 30 by default."""
ANSWER = 0.5
"""Seconds that the model takes for an answer, so that processes are killed in the middle of one."""


class UnhurriedModel(DemoModel):
    """The demo model, nearly as slow as a language model."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        await asyncio.sleep(ANSWER)
        async for event in super().stream(request):
            yield event


async def make_runtime(store: Store) -> Runtime:
    """Return the runtime of a web process or of a worker."""
    tools = ResearchTools(await open_library((), report=lambda _: None, environ={}))
    researcher = delegate(ResearcherAgent(), description="Ask a researcher to answer one question.", target="library")
    model = UnhurriedModel(token_counter().count)
    return Runtime(
        [
            (DeepResearchSupervisor(), ToolRegistry([researcher, tools.report()])),
            (ResearcherAgent(), ToolRegistry([tools.search(), tools.fetch()])),
        ],
        Resources(store=store, model=model, models=lambda _: model),
        lease=LEASE,
    )
