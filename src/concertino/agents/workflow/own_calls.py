"""The calls that the engine makes in a step itself: scripts, items of a plan, questions to people, outside steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...messages import ToolCall
from ...orchestrator.outcome import Outcome
from ...orchestrator.run import RunContext
from ...records import record
from ...tools.base import Tool
from .completion import completion_problem
from .conditions import filled_value
from .planning import item_text, make_plan, plan_problem, sum_up
from .step_tools import APPROVED, ASK_PERSON, COMPLETE, OUTSIDE, REVIEW_PLAN
from .workflow import AgentStep, HumanStep, PlannedStep, ScriptedStep, Step
from .workflow_progress import WorkflowProgress
from .workflow_state import StepWork, WorkflowState

_QUESTIONS = {
    "verify": "Accept step {step} although the verifier objects? {why}",
    "turn": "Let step {step} go on although the verifier objects? {why}",
    "stuck": "The agent is stuck in step {step}. Let it continue? {why}",
    "script": "Step {step} has failed. Try it again? {why}",
    "unknown": "Step {step} was interrupted. Has this call happened, and with what result? {why}",
}
_SHOWN = 2_000


@record
class OwnCalls:
    """Prepares the engine's next call in a step, and takes its result."""

    tools: Mapping[str, Tool]
    progress: WorkflowProgress

    async def prepare(self, run: RunContext[WorkflowState], step: Step, task: str) -> None:
        """Set the call that the engine makes next in *step*; none if the model is asked."""
        state = run.agent_state
        work = state.work
        work.call = None
        if work.review:
            work.call = (ASK_PERSON, {"question": _QUESTIONS[work.review].format(step=step.id, why=work.why)[:_SHOWN]})
            return
        match step:
            case HumanStep():
                work.call = (ASK_PERSON, {"question": task})
            case ScriptedStep():
                tool = self.tools[script_name(step)]
                names = tool.parameters.get("properties", {})
                given = {name: f"${name}" for name in names if state.variables.get(name) is not None}
                arguments = step.arguments if step.arguments is not None else given
                work.call = (tool.name, filled_value(arguments, state.variables))
            case AgentStep(outside=True):
                work.call = (OUTSIDE, {"step": step.id, "prompt": task, "sets": dict(step.sets)})
            case PlannedStep():
                await self._continue_plan(run, step, task)

    async def take(self, run: RunContext[WorkflowState], step: Step, call: ToolCall, outcome: Outcome) -> None:
        """Act on the result of the engine's own call."""
        work = run.agent_state.work
        if work.review == "unknown" and isinstance(step, PlannedStep | ScriptedStep):
            await self._settle(run, step, call, outcome)
            return
        if work.review:
            self._reviewed(run, step, outcome)
            return
        if outcome.unknown and getattr(step, "on_error", "") != "continue":
            work.review, work.why = "unknown", f"{call.name} {call.arguments}"[:_SHOWN]
            return
        match step:
            case HumanStep():
                self._answered(run, step, outcome)
            case ScriptedStep():
                self._ran(run, step, outcome)
            case AgentStep():
                self._performed(work, step, outcome)
            case PlannedStep():
                await self._took_item(run, step, call, outcome)

    # -- people --------------------------------------------------------------------------------------------------

    def _reviewed(self, run: RunContext[WorkflowState], step: Step, outcome: Outcome) -> None:
        """Act on a person's answer: an approval lets a step pass, an agent continue, or a script run again."""
        work = run.agent_state.work
        review, work.review = work.review, ""
        if review == "verify" and not outcome.is_error and work.completion is not None:
            self.progress.complete(run, step, work.completion, "person")
        elif review in ("verify", "turn"):  # the model reads the answer and goes on; the step needs its completion
            work.completion, work.objections = None, 0
        elif outcome.is_error:
            self.progress.fail(run, f"step {step.id!r}: {work.why}; {outcome.content}")
        else:
            work.nudges = 0

    async def _settle(
        self, run: RunContext[WorkflowState], step: PlannedStep | ScriptedStep, call: ToolCall, outcome: Outcome
    ) -> None:
        """Take a person's statement about a call with an unknown outcome: its result, or that it has not happened."""
        work = run.agent_state.work
        work.review = ""
        stated = outcome.content
        if not outcome.is_error:
            answer = outcome.data["answer"]
            stated = "it has happened, as a person states" if answer == APPROVED else str(answer)
        known = replace(outcome, content=stated, whole=None, data=None)
        if not isinstance(step, ScriptedStep):
            await self._took_item(run, step, call, known)
        elif not outcome.is_error or step.on_error == "fail":
            self._ran(run, step, known)

    def _answered(self, run: RunContext[WorkflowState], step: HumanStep, outcome: Outcome) -> None:
        answer: Any = False
        if not outcome.is_error:
            answer = True if outcome.data["answer"] == APPROVED else outcome.data["answer"]
        elif step.on_denied == "fail":
            self.progress.fail(run, f"step {step.id!r}: {outcome.content}")
            return
        self.progress.complete(run, step, {"notes": outcome.content, "context": _output(step, answer)}, "person")

    # -- scripts and outside agents ------------------------------------------------------------------------------

    def _ran(self, run: RunContext[WorkflowState], step: ScriptedStep, outcome: Outcome) -> None:
        work, whole = run.agent_state.work, outcome.content if outcome.whole is None else outcome.whole
        if outcome.is_error and step.on_error == "ask":
            work.review, work.why = "script", whole[:_SHOWN]
        elif outcome.is_error and step.on_error == "fail":
            self.progress.fail(run, f"step {step.id!r}: {whole}")
        else:
            value = None if outcome.is_error else _value(outcome, whole)
            self.progress.complete(run, step, {"notes": whole[:_SHOWN], "context": _output(step, value)}, "")

    def _performed(self, work: StepWork, step: AgentStep, outcome: Outcome) -> None:
        """Take the completion of an outside agent; an invalid one is asked for again, under a new token."""
        try:
            given = {} if outcome.is_error else json.loads(outcome.content)
        except ValueError:
            given = {}
        if isinstance(given, dict) and not completion_problem(given, step.sets):
            work.completion = {"notes": given["notes"], "context": given.get("context") or {}}

    # -- plans ---------------------------------------------------------------------------------------------------

    async def _continue_plan(self, run: RunContext[WorkflowState], step: PlannedStep, task: str) -> None:
        """Set the next call of a planned step, after asking for a plan or a summary where one is due."""
        work, tools = run.agent_state.work, [self.tools[name] for name in step.tools]
        while work.call is None and not run.agent_state.failure:
            if not work.stage:
                await make_plan(run, step, task, tools)
                await self._check_plan(run, step)
            elif work.stage == "review":
                work.call = (REVIEW_PLAN, {"items": work.plan})
            elif work.stage == "execute":
                self._next_item(run.agent_state)
            else:
                completion, problem = await sum_up(run, step, task)
                if problem:
                    self._replan(run, step, f"not reached: {problem}")
                else:
                    work.call = (COMPLETE, completion)

    async def _check_plan(self, run: RunContext[WorkflowState], step: PlannedStep, *, reviewed: bool = False) -> None:
        work = run.agent_state.work
        problem = await plan_problem(work.plan, step, [self.tools[name] for name in step.tools])
        run.emit("workflow.plan", {"step": step.id, "items": work.plan[:100], "problem": problem})
        if problem.endswith("the plan is cut off"):  # an incomplete plan must never look like a small one
            self.progress.fail(run, f"step {step.id!r}: {problem}")
        elif problem:
            self._replan(run, step, problem)
        else:
            work.stage = "review" if step.review and not reviewed else "execute"

    def _replan(self, run: RunContext[WorkflowState], step: PlannedStep, why: str) -> None:
        work = run.agent_state.work
        work.replans += 1
        work.stage, work.why = "", why
        if work.replans > step.replans:
            self.progress.fail(run, f"step {step.id!r}: {why}")

    def _next_item(self, state: WorkflowState) -> None:
        """Set the call of the next item. An item that reads a source with known facts is not executed."""
        work, known = state.work, {fact.source: fact.text for fact in state.facts}
        while work.call is None:
            number = len(work.results)
            item = work.plan[number]
            if item["tool"] == COMPLETE:
                work.stage = "sum_up"
                return
            params = item.get("params") or {}
            if (done := work.effects.get(_signature(item))) is not None:
                work.results.append(item_text(number + 1, item, f"done before: {done}"))
                continue
            sources = [value for value in params.values() if isinstance(value, str) and value in known]
            if sources and self.tools[item["tool"]].effect == "read":
                work.results.append(item_text(number + 1, item, f"known: {known[sources[0]]}"))
            else:
                work.call = (item["tool"], params)

    async def _took_item(
        self, run: RunContext[WorkflowState], step: PlannedStep, call: ToolCall, outcome: Outcome
    ) -> None:
        work, whole = run.agent_state.work, outcome.content if outcome.whole is None else outcome.whole
        if call.name == REVIEW_PLAN:
            if outcome.is_error:
                self._replan(run, step, whole)
            else:
                work.plan = list(outcome.data["items"])
                await self._check_plan(run, step, reviewed=True)
        elif outcome.is_error:
            self._replan(run, step, f"{call.name} failed: {whole[:_SHOWN]}")
        elif call.name == COMPLETE:
            self.progress.complete(run, step, outcome.data, "")
        else:
            number = len(work.results)
            item = work.plan[number]
            work.results.append(item_text(number + 1, item, whole))
            if self.tools[item["tool"]].effect != "read":
                work.effects[_signature(item)] = whole[:_SHOWN]


def script_name(step: ScriptedStep) -> str:
    """Return the name of the tool that *step* calls."""
    if isinstance(step.tool, str):
        return step.tool
    return str(getattr(step.tool, "name", None) or getattr(step.tool, "__name__", ""))


def _signature(item: Mapping[str, Any]) -> str:
    return f"{item['tool']} {json.dumps(item.get('params') or {}, sort_keys=True)}"


def _output(step: HumanStep | ScriptedStep, value: Any) -> dict[str, Any]:
    return {step.output: value} if step.output else {}


def _value(outcome: Outcome, whole: str) -> Any:
    """Return a result as a variable: structured data, or JSON lists and objects, or text."""
    if outcome.data is not None:
        return outcome.data
    if whole[:1] in ("[", "{"):
        try:
            return json.loads(whole)
        except ValueError:
            pass
    return whole
