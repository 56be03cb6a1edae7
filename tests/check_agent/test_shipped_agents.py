"""The agents and parts of the package have no faults that the check finds."""

from __future__ import annotations

from typing import Any

import pytest

from concertino import AgentConfig, Allow, Ask, DataPolicy, MemoryStore, ToolCall, ToolData, ToolRegistry
from concertino.agents import (
    EMAIL,
    DeepResearchSupervisor,
    MainThreadAgent,
    ResearcherAgent,
    TextRedaction,
    UserMemory,
    WorkerAgent,
    WorkerDefinition,
    delegate,
)
from concertino.testing import check_agent

from .kit import Base, look, pay


class Careful(Base):
    """Asks before it pays."""

    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Ask(note="a payment") if call.name == "pay" else Allow()


class Composed(Base):
    """Has parts."""

    def __init__(self) -> None:
        self.parts = (UserMemory(MemoryStore()), TextRedaction(EMAIL))


class Discreet(Careful):
    """Keeps nothing."""

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text="drop", other_tools=ToolData(arguments="redact", results="redact"))


class Delegating(Base):
    """Has a sub-agent."""

    tools = (look, delegate(Careful(), description="Pays."))


WORKER = WorkerAgent(
    WorkerDefinition(id="clerk", name="Clerk", system_prompt="You are a clerk."), ToolRegistry([look, pay])
)


@pytest.mark.parametrize(
    ("agent", "tools"),
    [
        (AgentConfig(), ()),
        (Careful(), None),
        (MainThreadAgent(), (look, pay)),
        pytest.param(DeepResearchSupervisor(), (look, pay), marks=pytest.mark.slow),
        pytest.param(ResearcherAgent(), (look,), marks=pytest.mark.slow),
        (WORKER, None),
        (Composed(), None),
        (Discreet(), None),
        pytest.param(Delegating(), None, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, AgentConfig) else "",
)
def test_a_shipped_agent_has_no_faults(agent: AgentConfig[Any], tools: Any) -> None:
    report = check_agent(agent, registry=None if tools is None else ToolRegistry(tools), cases=100)
    assert report.cases <= 110
