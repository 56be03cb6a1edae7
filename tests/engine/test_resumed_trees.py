"""A resumed run closes what its earlier process left open."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    RunError,
    ToolOrchestrator,
    ToolRegistry,
    tool,
)
from concertino.agents import delegate
from concertino.ids import new_run_id
from concertino.testing import ScriptedModel, call


class Child(AgentConfig[None]):
    name = "child"
    prompt = "You are the child."


class Supervisor(AgentConfig[None]):
    """An agent whose first hook hangs or fails in a resumed run."""

    name = "supervisor"

    def __init__(self) -> None:
        self.problem = ""
        self.reached = asyncio.Event()

    async def initialize_agent_state(self, run: object) -> None:
        self.reached.set()
        if self.problem == "fails":
            raise ValueError("a bug in the new release")
        if self.problem == "hangs":
            await asyncio.Event().wait()


async def parked(agent: Supervisor, resources: Resources, tools: ToolRegistry, begun: asyncio.Event) -> str:
    """Park a run while a tool of its sub-agent runs; return the run's id."""
    orchestrator = ToolOrchestrator(Chat("go"), agent, tools, resources=resources, run_id=new_run_id())
    task = asyncio.create_task(orchestrator.run())
    await begun.wait()
    orchestrator.park()
    with suppress(asyncio.CancelledError):
        await task
    agent.reached.clear()
    return orchestrator.run_id


@pytest.mark.parametrize(("problem", "status"), [("fails", "failed"), ("hangs", "cancelled")])
async def test_sub_agents_of_a_resumed_run_that_ends_early_are_closed(problem: str, status: str) -> None:
    begun, store, agent = asyncio.Event(), MemoryStore(), Supervisor()

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(call("child", query="work"), scripts={"the child": [call("pay")]})
    chat, resources = Chat("go"), Resources(model=model, store=store)
    tools = ToolRegistry([delegate(Child(), description="A child.", tools=[pay])])
    run_id = await parked(agent, resources, tools, begun)
    assert [run.end for run in await store.runs(OPERATOR, root_id=run_id)] == [None, None]

    agent.problem = problem
    resumed = ToolOrchestrator(chat, agent, tools, resources=resources, run_id=run_id, resume=True)
    task = asyncio.create_task(resumed.run())
    await agent.reached.wait()
    if problem == "hangs":
        resumed.stop()
    await asyncio.wait([task])
    runs = {run.start.agent_path: run for run in await store.runs(OPERATOR, root_id=run_id)}
    ends = {path: run.end and run.end.status for path, run in runs.items()}
    assert ends == {"supervisor": status, "supervisor/child-1": "cancelled"}
    for run in runs.values():
        roles = [stored.message.role for stored in await store.messages(OPERATOR, run.start.run_id)]
        assert roles[:3] == ["user", "assistant", "tool"], "each call has a result"
    with suppress(RunError, asyncio.CancelledError):
        task.result()
