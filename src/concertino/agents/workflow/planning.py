"""Planned steps: a model writes a plan, the engine executes it item by item, and a model sums up the results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ToolArgumentsError
from ...orchestrator.run import RunContext
from ...tools.base import Tool
from ..worker.decision import calls_schema, closed_object
from ..worker.prompts import tool_menu
from .completion import completion_problem
from .step_prompts import PLANNER_SYSTEM, SUMMARY_SYSTEM, known_facts, plan_prompt, summary_prompt
from .step_tools import COMPLETE, CompleteStep
from .workflow import PlannedStep
from .workflow_state import WorkflowState

_EXPECTED = {"expected_outcome": {"type": "string"}}


async def make_plan(run: RunContext[WorkflowState], step: PlannedStep, task: str, tools: Sequence[Tool]) -> None:
    """Ask for the plan of *step* and keep it."""
    state = run.agent_state
    schema = closed_object({"items": calls_schema([*tools, _EmptyCompletion()], _EXPECTED)})
    known = known_facts(state.facts, ()) if state.facts else ""
    question = plan_prompt(step, task, tool_menu(tools), known, state.work.why)
    plan = await run.ask(
        question, system=PLANNER_SYSTEM, output_type={"title": "plan", **schema}, model=step.model or run.model_id
    )
    state.work.plan, state.work.results = list(plan["items"]), []


async def plan_problem(plan: Sequence[Any], step: PlannedStep, tools: Sequence[Tool]) -> str:
    """Return what is wrong with a plan, which a model or a person has written; "" if nothing is."""
    by_name = {tool.name: tool for tool in tools}
    last = plan[-1].get("tool") if plan and isinstance(plan[-1], Mapping) else None
    if last != COMPLETE:
        return f"its last item is {last!r:.80}, not {COMPLETE}: the plan is cut off"
    if len(plan) - 1 > step.most_items:
        return f"it has {len(plan) - 1} items: the most are {step.most_items}"
    for number, item in enumerate(plan[:-1], 1):
        tool = by_name.get(item.get("tool", "")) if isinstance(item, Mapping) else None
        if tool is None:
            return f"item {number} calls no tool of the step: choose from {', '.join(by_name)}"
        if not isinstance(item.get("expected_outcome"), str) or not item["expected_outcome"].strip():
            return f"item {number} has no expected outcome"
        try:
            checked = tool.validate(dict(item.get("params") or {}))
            if not isinstance(checked, dict):
                await checked
        except ToolArgumentsError as error:
            return f"item {number}: {error}"
    return ""


async def sum_up(run: RunContext[WorkflowState], step: PlannedStep, task: str) -> tuple[dict[str, Any], str]:
    """Return the completion of a plan that was executed, and the expected outcomes that were not met."""
    schema = closed_object(
        {
            "notes": {"type": "string"},
            "context": closed_object({name: {"description": text} for name, text in step.sets.items()}),
            "unmet": {"type": "array", "items": {"type": "string"}},
        }
    )
    question = summary_prompt(step, task, run.agent_state.work.results)
    found = await run.ask(
        question, system=SUMMARY_SYSTEM, output_type={"title": "summary", **schema}, model=step.model or run.model_id
    )
    completion = {"notes": found["notes"], "context": found["context"]}
    return completion, "; ".join(found["unmet"]) or completion_problem(completion, step.sets)


def item_text(number: int, item: Mapping[str, Any], result: str) -> str:
    """Return an item of a plan with its result."""
    params = json.dumps(item.get("params") or {}, ensure_ascii=False)
    return f"## {number}. {item['tool']} {params}\nExpected: {item['expected_outcome']}\nResult: {result[:4_000]}"


class _EmptyCompletion(CompleteStep):
    """The last item of a plan: the engine fills it in."""

    parameters = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}  # noqa: RUF012 - a constant
