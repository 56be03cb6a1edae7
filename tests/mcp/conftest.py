from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Resources, RunResult, Scope, ToolOrchestrator
from concertino.agents import McpTools
from concertino.testing import ScriptedModel
from concertino.tools.mcp import McpServer, McpToolbox

HERE = Path(__file__).parent
ANN = Scope("acme", "ann")


def friendly(**settings: Any) -> McpServer:
    """Return the friendly server over stdio."""
    return McpServer(name="own", command=[sys.executable, str(HERE / "friendly.py")], **settings)


def bare(kind: str, **settings: Any) -> McpServer:
    """Return a server of an earlier protocol, which misbehaves in the way that *kind* names."""
    return McpServer(name=kind, command=[sys.executable, str(HERE / "bare.py"), kind], **settings)


def agent(toolbox: McpToolbox, *, approve: bool = False) -> AgentConfig[Any]:
    """Return an agent with the tools of *toolbox*."""

    class Assistant(AgentConfig[Any]):
        name = "assistant"
        parts = (McpTools(toolbox, approve=approve),)

    return Assistant()


async def run(toolbox: McpToolbox, *steps: Any, scope: Scope = ANN, events: list[Any] | None = None) -> RunResult:
    """Run an agent with the tools of *toolbox* on a scripted model."""
    with ScriptedModel(*steps) as model:
        chat = Chat("Go.", model=model, scope=scope)
        orchestrator = ToolOrchestrator(chat, agent(toolbox), resources=Resources())
        async for event in orchestrator.stream():
            if events is not None:
                events.append(event)
        assert orchestrator.result is not None
        return orchestrator.result


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def opened(reports: list[str]) -> Callable[..., McpToolbox]:
    return lambda *servers: McpToolbox(*servers, report=reports.append)
