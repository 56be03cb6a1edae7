"""A runtime with a workflow that asks a person and looks at what it names."""

from __future__ import annotations

from concertino import Resources, Runtime, SqliteStore, tool
from concertino.agents import HumanStep, ScriptedStep, Step, Workflow, WorkflowAgent
from concertino.testing import ScriptedModel


@tool(effect="read")
async def look(name: str) -> str:
    """Look."""
    return f"{name} is red"


def make_runtime(store: SqliteStore) -> Runtime:
    """Return the runtime; for --app."""
    steps: list[Step] = [
        ScriptedStep(id="see", tool=look, arguments={"name": "$goal"}, output="colour"),
        HumanStep(id="ask", question="Ship $goal?", output="answer"),
    ]
    flow = Workflow(name="flow", steps=steps, answer="$colour: $answer")
    model = ScriptedModel()
    return Runtime([WorkflowAgent(flow)], Resources(model=model, models=lambda _: model, store=store))
