"""The pages of workers: the list, a portal for each, and the living document of a goal."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ...agents import WorkerAgent
from ...runtime import Runtime
from ..endpoint import ApiCall
from ..forms import GoalForm, LimitQuery
from ..worker_endpoints import list_goals, list_workers, read_goal, read_worker
from .site import Site, frame_values


async def worker_list(site: Site, call: ApiCall) -> Response:
    """Return the page of all workers."""
    found = await list_workers(call)
    frame = await frame_values(call, title="Workers", here="workers")
    return site.page(call.request, "workers.html", workers=found.items, **frame)


async def worker_portal(site: Site, call: ApiCall) -> Response:
    """Return the page of one worker: its texts, a form for a goal, and the goals so far."""
    name = call.request.path_params["worker"]
    worker = await read_worker(call, name)
    goals = await list_goals(call, name, LimitQuery())
    frame = await frame_values(call, title=worker.name or name, here="workers")
    return site.page(call.request, "worker.html", worker=worker, goals=goals.items, **frame)


async def goal_document(site: Site, call: ApiCall) -> Response:
    """Return the living document of a conversation's newest goal."""
    conversation = await call.runtime.conversation(call.scope, call.request.path_params["conversation"])
    stored = await conversation.read()
    goal = await goal_of(call, conversation.agent, stored.busy or stored.leaf)
    return site.fragment(call.request, "document.html", goal=goal)


async def goal_of(call: ApiCall, agent: str, run_id: str) -> GoalForm | None:
    """Return the state of a worker's goal; None for another agent, or before the run has started."""
    if worker_of(call.runtime, agent) is None or not run_id:
        return None
    try:
        found: GoalForm = await read_goal(call, agent, run_id)
    except HTTPException:  # queued, or of another agent
        return None
    return found


def worker_of(runtime: Runtime, name: str) -> WorkerAgent | None:
    """Return the worker of this name; None if the agent is of another kind."""
    return next((each for each in runtime.agents if isinstance(each, WorkerAgent) and each.name == name), None)
