"""The agents and parts of the package have no faults that the check finds."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import threading
from dataclasses import replace
from enum import Enum
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    DataPolicy,
    MemoryStore,
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolData,
    ToolMessage,
    ToolRegistry,
)
from concertino.agents import (
    EMAIL,
    AgentStep,
    Approvals,
    DeepResearchSupervisor,
    GoalAgent,
    HumanStep,
    InputGuardrail,
    Loop,
    MainThreadAgent,
    Notes,
    OutputGuardrail,
    PlannedStep,
    ResearcherAgent,
    Routing,
    ScriptedStep,
    TextRedaction,
    ToolGuardrail,
    UserMemory,
    Verifier,
    WorkerAgent,
    WorkerDefinition,
    Workflow,
    WorkflowAgent,
    delegate,
)
from concertino.testing import call, check_agent

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


class Guarded(Base):
    """Has the parts that judge, and notes."""

    def __init__(self) -> None:
        self.parts = (
            Approvals("pay", rules=MemoryStore()),
            InputGuardrail(lambda _run, text: None),
            OutputGuardrail(lambda _run, text: "a shorter answer" if len(text) > 20 else None),
            ToolGuardrail(lambda _run, call, _arguments: None, lambda _run, _call, _text: None),
            Notes(),
        )


class Mood(Enum):
    """A value of a class that the agent's module defines."""

    CALM = "calm"


class Diligent(Careful):
    """Does what looks like a fault and is none: threads, locks, work that is cleaned up, a task for all runs."""

    mood = Mood.CALM
    lock = threading.Lock()
    local = threading.local()
    keeper: asyncio.Task[Any] | None = None

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(tools={"pay": ToolData(arguments="redact")})

    async def prepare(self, run: Any) -> list[SystemMessage]:
        if self.keeper is None:
            self.keeper = asyncio.create_task(asyncio.Event().wait())
        with self.lock:
            self.local.name = self.name
        name = await asyncio.to_thread(str.title, self.local.name)
        return [SystemMessage(f"You are the {self.mood.value} {name}.")]

    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        request.extra["x-user"] = run.chat.scope.user
        request.messages = [
            replace(each, content=f"{each.content[:9]}...") if isinstance(each, ToolMessage) else each
            for each in request.messages
        ]
        return request

    async def conclude(self, run: Any, text: str) -> str:
        self.note = asyncio.create_task(asyncio.sleep(0))
        work = asyncio.create_task(asyncio.sleep(0.001))
        try:
            await asyncio.shield(work)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return text


NOTES = "Looked at everything that the step names, and found two risks."
STATED: dict[str, Any] = {"notes": NOTES, "context": {"risk": "low"}}
DONE = call("complete_step", **STATED)
AGENT_STEP = AgentStep(id="look", prompt="Look at $goal.", tools=("look", "pay"), sets={"risk": "low or high"})
VERDICT = {"assessment": "pass", "reasoning": "", "instruction": ""}
ITEMS = [
    {"tool": "look", "params": {"place": "x"}, "expected_outcome": "seen"},
    {"tool": "pay", "params": {"account": "x", "euros": 1}, "expected_outcome": "paid"},
    {"tool": "complete_step", "params": {}, "expected_outcome": ""},
]
FLOWS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"steps": [AGENT_STEP]}, [DONE]),
    (
        {"steps": [AGENT_STEP], "mode": "structured"},
        [json.dumps({"thought": "", "tool_calls": [], "is_complete": True, **STATED})],
    ),
    (
        {"steps": [replace(AGENT_STEP, verifier=Verifier(strictness="high", tie_break="judge"))]},
        [DONE, json.dumps(VERDICT), json.dumps(VERDICT | {"assessment": "escalate"})],
    ),
    (
        {"steps": [PlannedStep(id="plan", prompt="Plan.", tools=("look", "pay"), review=True)]},
        [json.dumps({"items": ITEMS}), json.dumps({"notes": NOTES, "context": {}, "unmet": []})],
    ),
    (
        {
            "steps": [
                HumanStep(id="ask", question="Go?", output="answer"),
                ScriptedStep(id="pay", tool="pay", arguments={"account": "$goal", "euros": 1}, on_error="ask"),
                Loop(each="items", steps=[AGENT_STEP]),
            ],
            "variables": {"items": ["a", "b"]},
            "on_stuck": "escalate",
            "routing": Routing(),
        },
        [DONE],
    ),
]


@pytest.mark.parametrize(
    "fields,answers", [FLOWS[0], *[pytest.param(*each, marks=pytest.mark.slow) for each in FLOWS[1:]]]
)
def test_a_workflow_has_no_faults(fields: dict[str, Any], answers: list[Any]) -> None:
    check_agent(WorkflowAgent(Workflow(name="flow", **fields), [look, pay]), answers=answers, cases=100)


@pytest.mark.slow
def test_a_goal_agent_has_no_faults() -> None:
    verdicts = [json.dumps({"met": met, "reason": ""}) for met in (True, False)]
    check_agent(GoalAgent("writer", "It is done.", tools=(look, pay), rounds=3), answers=verdicts, cases=100)


@pytest.mark.parametrize(
    ("agent", "tools"),
    [
        (AgentConfig(), ()),
        (Careful(), None),
        (MainThreadAgent(), (look, pay)),
        pytest.param(DeepResearchSupervisor(), (look, pay), marks=pytest.mark.slow),
        pytest.param(ResearcherAgent(), (look,), marks=pytest.mark.slow),
        pytest.param(WORKER, None, marks=pytest.mark.slow),
        pytest.param(Composed(), None, marks=pytest.mark.slow),
        pytest.param(Discreet(), None, marks=pytest.mark.slow),
        pytest.param(Diligent(), None, marks=pytest.mark.slow),
        pytest.param(Delegating(), None, marks=pytest.mark.slow),
        pytest.param(Guarded(), None, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, AgentConfig) else "",
)
def test_a_shipped_agent_has_no_faults(agent: AgentConfig[Any], tools: Any) -> None:
    report = check_agent(agent, registry=None if tools is None else ToolRegistry(tools), cases=100)
    assert report.cases <= 110


@pytest.mark.slow
def test_a_check_leaves_its_process_as_it_was() -> None:
    """Also if two runs were played at the same time: the second one begins before the first one ends."""
    log = logging.getLogger("concertino")
    random.seed(7)
    state = random.getstate()
    check_agent(Diligent(), cases=100)
    assert (log.disabled, random.getstate() == state) == (False, True)
