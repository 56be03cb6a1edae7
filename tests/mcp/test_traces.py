"""The trace of a run goes on in the MCP servers that it calls."""

from __future__ import annotations

from collections.abc import Callable

from concertino import Chat, ToolOrchestrator
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpToolbox
from tests.observability.kit import Collected

from .conftest import agent, friendly


async def test_a_server_gets_the_trace_of_the_call(opened: Callable[..., McpToolbox]) -> None:
    made = Collected()
    async with opened(friendly()) as box:
        with ScriptedModel(call("own_traced"), "Done.") as model:
            result = await ToolOrchestrator(Chat("Go.", model=model), agent(box), observers=[made.telemetry]).run()
    (span,) = made.named("execute_tool")
    trace, parent = result.messages[-2].content.split("-")[1:3]
    assert (int(trace, 16), result.status) == (span.context.trace_id, "completed")
    assert int(parent, 16) == span.context.span_id
