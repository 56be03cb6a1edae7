"""Verification: a model judges a step, and a tie-break decides if agent and verifier still disagree."""

from __future__ import annotations

from typing import Any, Literal

from ...errors import InvalidOutputError
from ...messages import SystemMessage
from ...orchestrator.outcome import CONTINUE, Continue, Fail, NextStep
from ...orchestrator.run import RunContext
from ...records import record
from .step_prompts import VERIFIER_SYSTEM, judge_prompt, seen_by_verifier, verifier_prompt
from .workflow import AgentStep, Verifier
from .workflow_state import WorkflowState

_VERDICT = {
    "title": "verdict",
    "type": "object",
    "properties": {
        "assessment": {"type": "string", "enum": ["pass", "retry", "escalate"]},
        "reasoning": {"type": "string"},
        "instruction": {"type": "string", "description": "For retry: what to do differently"},
    },
    "required": ["assessment", "reasoning", "instruction"],
    "additionalProperties": False,
}


@record
class Accepted:
    """The step passes; *by* names who decided."""

    by: str


async def verify(run: RunContext[WorkflowState], step: AgentStep, task: str) -> Accepted | NextStep:
    """Judge the completion of *step*, or its last turn if it is not completed.

    Return `Accepted`; or how the run continues: with the verifier's instruction, or with a person's review.
    """
    verifier, work = step.verifier, run.agent_state.work
    assert verifier is not None
    finished = work.completion is not None
    notes = work.completion["notes"] if work.completion is not None else ""
    seen = seen_by_verifier(run.messages[work.first_message :])
    prompt = verifier_prompt(task, notes, seen, verifier.strictness, finished=finished)
    try:
        verdict = await run.ask(
            prompt, system=VERIFIER_SYSTEM, output_type=_VERDICT, model=verifier.model or run.model_id
        )
    except InvalidOutputError as error:  # a verdict that cannot be read lets nothing pass
        verdict = {"assessment": "escalate", "reasoning": f"the verdict cannot be read: {error}", "instruction": ""}
    run.emit("workflow.verdict", {"step": step.id, **verdict})
    reason = verdict["instruction"] or verdict["reasoning"]
    match verdict["assessment"]:
        case "pass":
            return Accepted("verifier")
        case "escalate":
            return _ask_person(run, verdict["reasoning"])
        case _ if work.objections < verifier.retries:
            work.objections += 1
            work.completion = None
            return Continue(messages=(SystemMessage(f"The verifier refuses this: {reason}"),))
        case _ if not finished:
            return CONTINUE  # the completion is judged in any case
    return await _break_tie(run, verifier, step, judge_prompt(task, notes, seen, reason), reason)


async def _break_tie(
    run: RunContext[WorkflowState], verifier: Verifier, step: AgentStep, question: str, reason: str
) -> Accepted | NextStep:
    match verifier.tie_break:
        case "accept":
            return Accepted("agent")
        case "fail":
            return Fail(f"step {step.id!r} was refused {verifier.retries + 1} times: {reason}")
        case "judge":
            sides: Any = Literal["agent", "verifier"]
            model = verifier.judge_model or run.model_id
            try:
                right = await run.ask(question, system=VERIFIER_SYSTEM, output_type=sides, model=model)
            except InvalidOutputError:
                right = "verifier"
            run.emit("workflow.tie_break", {"step": step.id, "for": right})
            if right == "agent":
                return Accepted("judge")
    return _ask_person(run, reason)


def _ask_person(run: RunContext[WorkflowState], reason: str) -> NextStep:
    work = run.agent_state.work
    work.review, work.why = "verify" if work.completion is not None else "turn", reason
    return CONTINUE
