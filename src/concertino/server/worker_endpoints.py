"""Endpoints of workers: their pages, their goals, and the status of a goal."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from ..agents import WorkerAgent, WorkerState
from ..orchestrator.chat import Chat
from ..orchestrator.journal.replay import replay
from ..orchestrator.plain import load_state
from .conversation_endpoints import media_of, turn_form
from .endpoint import ApiCall, Endpoints
from .forms import (
    ApprovalForm,
    DocumentEntryForm,
    GoalForm,
    KeyHeaders,
    LimitQuery,
    ListForm,
    NewGoal,
    RunForm,
    TurnForm,
    WorkerForm,
)
from .run_endpoints import run_form

workers = Endpoints("workers")
_ONE = "/api/workers/{worker}"
_SCANNED = 1000
"""The newest runs of the scope, among which a worker's are found."""


@workers("GET", "/api/workers")
async def list_workers(call: ApiCall) -> ListForm[WorkerForm]:
    """List the workers."""
    return ListForm(items=[_form(each) for each in _workers(call).values()])


@workers("GET", _ONE)
async def read_worker(call: ApiCall, worker: str) -> WorkerForm:
    """Read a worker's texts for a page."""
    return _form(_worker(call, worker))


@workers("GET", f"{_ONE}/goals")
async def list_goals(call: ApiCall, worker: str, query: LimitQuery) -> ListForm[RunForm]:
    """List the goals that the user has given a worker, the newest first."""
    name = _worker(call, worker).name
    found = await call.runtime.store.runs(call.scope, roots=True, limit=_SCANNED)
    return ListForm(items=[run_form(each) for each in found if each.start.agent == name][: query.limit])


@workers("POST", f"{_ONE}/goals", status=202, starts=True)
async def give_goal(call: ApiCall, worker: str, headers: KeyHeaders, body: NewGoal) -> TurnForm:
    """Give a worker a goal, in a new conversation or in an earlier one with this worker."""
    agent = _worker(call, worker)
    if agent.definition.status != "active":
        raise HTTPException(409, f"worker {worker!r} takes no goals yet")
    chat = Chat(body.text, media=await media_of(call, body.files))
    if body.conversation is None:
        # One request, sent again, is one conversation: its id follows from the key.
        made = f"goal_{worker}_{headers.key}" if headers.key else None
        conversation = await call.runtime.conversation(call.scope, made, agent=agent.name)
    else:
        conversation = await call.runtime.conversation(call.scope, body.conversation)
        if conversation.agent != agent.name:
            raise HTTPException(409, f"the conversation is with {conversation.agent!r}")
    return await turn_form(await conversation.send(chat, key=headers.key))


@workers("GET", f"{_ONE}/goals/{{run}}")
async def read_goal(call: ApiCall, worker: str, run: str) -> GoalForm:
    """Read the state of a goal: its run, its living document and its open approvals."""
    agent, store = _worker(call, worker), call.runtime.store
    journal = await store.load(call.scope, run)
    if journal is None or journal.run.start.agent != agent.name:
        raise HTTPException(404, f"worker {worker!r} has no run {run!r}")
    state: WorkerState = load_state(WorkerState(), replay(journal).agent_state)
    document = state.document
    shown = {name: "\n".join(each.text for each in document.current(name)) for name in document.names}
    root_id = journal.run.start.root_id
    waiting = [each for each in await store.waits(call.scope, root_id=root_id) if each.kind == "approval"]
    return GoalForm(
        run=run_form(journal.run),
        passes=state.passes,
        ended=state.ended,
        document=shown,
        history=[DocumentEntryForm.model_validate(each) for each in document.entries],
        approvals=[ApprovalForm.model_validate(each) for each in waiting],
    )


def _workers(call: ApiCall) -> dict[str, WorkerAgent]:
    names = call.state.agents
    return {
        agent.name: agent for agent in call.runtime.agents if isinstance(agent, WorkerAgent) and agent.name in names
    }


def _worker(call: ApiCall, name: str) -> WorkerAgent:
    found = _workers(call).get(name)
    if found is None:
        raise HTTPException(404, f"there is no worker {name!r}")
    return found


def _form(agent: WorkerAgent) -> WorkerForm:
    return WorkerForm.model_validate(agent.definition)
