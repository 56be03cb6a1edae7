"""`concertino workflow`: a run of a workflow, the state of its steps, and its continuation."""

from __future__ import annotations

import json
from typing import Any

from ...agents import WorkflowAgent
from ...errors import ConfigurationError
from ...orchestrator.journal.replay import replay
from ...scope import OPERATOR
from ..command_context import CommandContext
from ..render.console import table
from ..render.format import one_line
from .agent_run import answer_cards, open_runtime, run_agent
from .run_state import find_run
from .runs_resume import resume_run

_NOTES = 300


async def run_workflow(name: str, tenant: str, goal: str | None, context: CommandContext) -> int:
    """Start the workflow *name* for a user of *tenant*, and show it. Raises `ConfigurationError`."""
    return await run_agent("workflow", WorkflowAgent, name, tenant, goal, context)


async def resume_workflow(run_id: str, context: CommandContext) -> int:
    """Ask about what waits, and continue the run. Raises as `runs resume`."""
    run = await find_run(context, run_id)
    async with open_runtime(context) as runtime:
        waiting = await context.store.waits(OPERATOR, root_id=run.start.root_id, limit=100)
        await answer_cards(waiting, runtime, context)
    return await resume_run(run_id, context)


async def show_workflow(run_id: str, context: CommandContext) -> int:
    """Print the steps of a run with their state, and the variables. Raises `ConfigurationError`."""
    run = await find_run(context, run_id)
    journal = await context.store.load(OPERATOR, run_id)
    assert journal is not None
    state: Any = json.loads(replay(journal).agent_state or "{}")
    if not isinstance(state, dict) or "visits" not in state:
        raise ConfigurationError(f"run {run_id} of agent {run.start.agent!r} is not a run of a workflow: use runs show")
    if context.console.as_json:
        names = ("visits", "variables", "facts", "learned", "failure")
        context.console.json({"run_id": run_id, **{name: state[name] for name in names}})
        return 0
    rows = [
        [str(each["number"]), each["id"], each["kind"], each["status"], each["by"], one_line(each["notes"], _NOTES)]
        for each in state["visits"]
    ]
    context.console.print(table(("", "step", "kind", "status", "by", "notes"), rows, flexible=("notes",)))
    for wait in await context.store.waits(OPERATOR, root_id=run.start.root_id, limit=100):
        context.console.notice(f"waits: {wait.note or wait.tool} ({wait.key})")
    if state["failure"]:
        context.console.notice(f"failed: {one_line(state['failure'], _NOTES)}")
    return 0
