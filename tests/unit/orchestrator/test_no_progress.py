"""A pass over the calls of a turn that changes no state ends the run with an error instead of spinning."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Allow, Ask, Chat, Resources, RunContext, ToolCall, tool
from concertino.events import CallWaiting
from concertino.operations import OperationEvent, OperationState, transition
from concertino.orchestrator.tool_calls import tool_call
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel, call


async def test_an_answer_without_a_transition_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    release = asyncio.Event()

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        return "paid"

    @tool(effect="read")
    async def slow() -> str:
        """Wait."""
        await release.wait()
        return "seen"

    class Clerk(AgentConfig[None]):
        name, tools = "clerk", (pay, slow)

        def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
            return Ask() if call.name == "pay" else Allow()

    def deaf(state: OperationState, event: OperationEvent) -> OperationState:
        return state if event == "approve" else transition(state, event)

    monkeypatch.setattr(tool_call, "transition", deaf)
    model = ScriptedModel([call("pay"), call("slow")], "done")
    runtime = Runtime([Clerk()], Resources(models=lambda _: model))
    live = await runtime.start(Chat("x", model=model), "clerk")
    async for _, event in live.events():
        if isinstance(event, CallWaiting):
            await runtime.approve(OPERATOR, event.key)
            release.set()
    result = await live.result()
    assert result.status == "failed"
    assert "made no progress" in (result.error or "")
