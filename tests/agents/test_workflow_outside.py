"""A workflow as tools of an outside agent: it does the steps, and its tokens are bound to step and run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, RunResult, Runtime, Scope, ToolMessage
from concertino.agents import AgentStep, ScriptedStep, Workflow, WorkflowAgent, workflow_tools
from concertino.testing import ScriptedModel, call

from .workflow_kit import ANN, NOTES, TOOLS

FLOW = Workflow(
    name="flow",
    steps=[
        AgentStep(id="first", prompt="Read $goal.", sets={"risk": "high or low"}, outside=True),
        ScriptedStep(id="see", tool="look", arguments={"name": "$risk"}, output="seen"),
        AgentStep(id="second", prompt="Report $seen.", outside=True),
    ],
    answer="$seen",
)


class Driver(AgentConfig[None]):
    name = "driver"

    def __init__(self, tools: Any) -> None:
        self.tools = tools


def last(request: Any) -> str:
    message = request.messages[-1]
    assert isinstance(message, ToolMessage)
    return message.content


def token(request: Any) -> str:
    return str(json.loads(last(request))["token"])


def done(request: Any, **fields: Any) -> Any:
    return call("continue_workflow", **{"token": token(request), "notes": NOTES, **fields})


async def drive(*script: Any, store: MemoryStore | None = None, scope: Scope = ANN) -> tuple[RunResult, ScriptedModel]:
    store = store or MemoryStore()
    flows = Runtime([WorkflowAgent(FLOW, TOOLS)], Resources(store=store, model=ScriptedModel()))
    driver = Driver(workflow_tools(flows, "flow", secret="s3cret"))
    with ScriptedModel(*script) as model:
        async with flows, Runtime([driver], Resources(store=store, model=model)) as runtime:
            result = await (await runtime.start(Chat("Go", scope=scope), "driver")).result()
    return result, model


START = call("start_workflow", goal="the diff")


async def test_an_outside_agent_does_the_steps() -> None:
    result, model = await drive(START, lambda r: done(r, context={"risk": "low"}), done, "Finished.")
    assert result.text == "Finished."
    first, second, end = (json.loads(last(request)) for request in model.requests[1:])
    assert (first["step"], first["prompt"], first["sets"]) == ("first", "Read the diff.", {"risk": "high or low"})
    assert (second["step"], second["prompt"]) == ("second", "Report low is red.")
    assert (end["status"], end["answer"]) == ("completed", "low is red")


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (lambda t: re.sub(r":1\.0", ":2.0", t), "was not issued"),
        (lambda t: t[:-1] + ("0" if t[-1] != "0" else "1"), "was not issued"),
        (lambda t: t.rpartition(".")[0], "was not issued"),
        (lambda _: "token", "was not issued"),
    ],
)
async def test_a_forged_token_is_refused(forge: Callable[[str], str], why: str) -> None:
    _, model = await drive(START, lambda r: done(r, token=forge(token(r)), context={"risk": "low"}), "I give up.")
    assert why in last(model.requests[2])


async def test_a_token_counts_once_and_only_with_a_valid_completion() -> None:
    first: list[str] = []

    def keep(request: Any) -> Any:
        first.append(token(request))
        return done(request)  # without the variable

    script = (
        *(START, keep, lambda _: call("continue_workflow", token=first[0], notes=NOTES, context={"risk": "low"})),
        lambda _: call("continue_workflow", token=first[0], notes=NOTES, context={"risk": "high"}),
        "I give up.",
    )
    _, model = await drive(*script)
    assert "context lacks risk" in last(model.requests[2])
    assert json.loads(last(model.requests[3]))["step"] == "second"
    assert "has been used" in last(model.requests[4])


async def test_a_token_of_another_tenant_is_refused() -> None:
    store, stolen = MemoryStore(), []

    def keep(request: Any) -> str:
        stolen.append(token(request))
        return "Later."

    await drive(START, keep, store=store)
    script = lambda _: call("continue_workflow", token=stolen[0], notes=NOTES, context={"risk": "low"}), "I give up."
    _, model = await drive(*script, store=store, scope=Scope("rival", "bob"))
    assert "was not issued" in last(model.requests[1])
