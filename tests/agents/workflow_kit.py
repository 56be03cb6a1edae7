"""Workflows over a few tools, and their runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from concertino import Chat, MemoryStore, Resources, RunEvent, RunResult, Runtime, Scope, ToolOrchestrator, tool
from concertino.agents import Workflow, WorkflowAgent
from concertino.events import CustomEvent
from concertino.testing import ScriptedModel, call

ANN = Scope("acme", "ann")
NOTES = "Looked at everything that the step names, and found two risks."


@tool(effect="read")
async def look(name: str) -> str:
    """Look at a thing."""
    if name == "nothing":
        raise ValueError("there is nothing")
    return f"{name} is red"


@tool(effect="read")
async def files(folder: str) -> list[str]:
    """The files of a folder."""
    return [f"{folder}/a", f"{folder}/b"]


@tool(effect="once")
async def ship(version: str) -> str:
    """Ship a version."""
    return f"shipped {version}"


TOOLS = (look, files, ship)


def complete(notes: str = NOTES, **context: Any) -> Any:
    """Return a call that completes the step."""
    return call("complete_step", notes=notes, context=context)


def answered(*calls: tuple[str, dict[str, Any]], complete: bool = False, notes: str = NOTES, **context: Any) -> str:
    """Return a structured answer."""
    made = [{"tool": name, "params": params} for name, params in calls]
    stated = {"thought": "I see.", "tool_calls": made, "notes": notes, "context": context, "is_complete": complete}
    return json.dumps(stated)


class FlowFailed(Exception):  # noqa: N818 - of a run, not of the test
    """The run has failed."""


def completed(result: RunResult) -> RunResult:
    """Return *result* unless the run has failed."""
    if result.status == "failed":
        raise FlowFailed(result.error)
    return result


class Played:
    """A run: its result, its events and the requests of each model."""

    def __init__(self, result: RunResult, events: Sequence[RunEvent], models: dict[str, ScriptedModel]) -> None:
        self.result, self.events = result, list(events)
        self.requests = {name: model.requests for name, model in models.items()}

    def custom(self, name: str) -> list[Any]:
        """Return the data of the events *name*."""
        return [event.data for event in self.events if isinstance(event, CustomEvent) and event.name == name]

    @property
    def steps(self) -> list[str]:
        """The steps in the order in which they were completed."""
        return [data["step"] for data in self.custom("workflow.completed")]

    def last(self, request: int, model: str = "main") -> str:
        """Return the last message of a request."""
        message: Any = self.requests[model][request].messages[-1]
        return str(getattr(message, "text", "") or getattr(message, "content", ""))


async def play(
    workflow: Workflow, *script: Any, small: Sequence[Any] = (), agent: WorkflowAgent | None = None, **settings: Any
) -> Played:
    """Run a workflow with a script for each model; scripts that are not used up fail."""
    models = {"main": ScriptedModel(*script, name="main"), "small": ScriptedModel(*small, name="small")}
    resources = Resources(models=lambda name: models[name.partition(":")[2]], **settings)
    made = agent or WorkflowAgent(workflow, TOOLS)
    run = ToolOrchestrator(Chat("the release", model=models["main"], scope=ANN), made, resources=resources)
    events: list[RunEvent] = []
    try:
        async for event in run.stream():
            events.append(event)
    finally:
        for model in models.values():
            with model:
                pass
    assert run.result is not None
    return Played(completed(run.result), events, models)


class Office:
    """A runtime with one workflow, whose waits people answer."""

    def __init__(self, workflow: Workflow, *script: Any, agent: WorkflowAgent | None = None) -> None:
        self.store, self.model = MemoryStore(), ScriptedModel(*script, name="main")
        self.agent = agent or WorkflowAgent(workflow, TOOLS)
        self.runtime = self._open()
        self.result: RunResult

    def _open(self) -> Runtime:
        return Runtime([self.agent], Resources(store=self.store, model=self.model))

    async def start(self) -> RunResult:
        self.result = await (await self.runtime.start(Chat("the release", scope=ANN), self.agent.name)).result()
        return self.result

    async def answer(self, **arguments: Any) -> RunResult:
        """Approve what waits in another process, with other arguments if given."""
        await self.restart()
        await self.runtime.approve(ANN, self.result.waiting[0].key, arguments=arguments or None)
        return await self._resumed()

    async def deny(self, reason: str) -> RunResult:
        await self.runtime.deny(ANN, self.result.waiting[0].key, reason)
        return await self._resumed()

    async def restart(self) -> None:
        await self.runtime.close()
        self.runtime = self._open()

    async def _resumed(self) -> RunResult:
        self.result = await (await self.runtime.resume(ANN, self.result.run_id)).result()
        return completed(self.result)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: Any, *_: object) -> None:
        await self.runtime.close()
        await self.store.close()
        if kind is None:
            with self.model:
                pass
