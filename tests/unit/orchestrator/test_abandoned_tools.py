"""A tool that ignores its cancellation: the run continues without it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import AgentConfig, ToolContext, tool
from concertino.events import ToolFailed
from concertino.messages import ToolMessage
from concertino.orchestrator.journal import lease
from concertino.testing import ScriptedModel, call

from ...engine.conftest import play


@pytest.mark.parametrize("parallel", [True, False])
async def test_a_tool_that_ignores_its_cancellation_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, parallel: bool
) -> None:
    monkeypatch.setattr(lease, "STOP_DEADLINE", 0.05)
    free = asyncio.Event()
    stubborn: list[asyncio.Task[Any]] = []

    @tool(timeout=0.02)
    async def cling(context: ToolContext) -> str:
        """Cling."""
        task = asyncio.current_task()
        assert task is not None
        stubborn.append(task)
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                context.progress.begin("still here")
        return "late"

    @tool
    async def quick() -> str:
        """Quick."""
        return "quick"

    class Agent(AgentConfig[None]):
        use_parallel_tools = parallel

    with ScriptedModel([call("cling"), call("quick")], call("quick"), "done") as model:
        seen = await play(model, Agent(), tools=[cling, quick])
    results = [message.content for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert results == ["no result within the time limit of 0.02 s", "quick", "quick"]
    assert [e.name for e in seen.of(ToolFailed)] == ["cling"]
    free.set()
    await asyncio.gather(*stubborn)
    assert seen.result.status == "completed"
