"""The progress of a run through its workflow: the only code that begins, completes and ends steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...messages import Message, SystemMessage
from ...orchestrator.outcome import Finish
from ...orchestrator.run import RunContext
from ...records import record
from .conditions import filled
from .step_order import Instruction
from .step_prompts import step_prompt
from .workflow import AgentStep, HumanStep, Loop, PlannedStep, Step, Workflow
from .workflow_state import StepVisit, StepWork, WorkflowState

_SHOWN = 2_000


@record
class WorkflowProgress:
    """Moves the position of a run. It belongs to the agent and has no state of its own."""

    workflow: Workflow
    order: Sequence[Instruction]

    def current(self, state: WorkflowState) -> Step | None:
        """Return the step in progress; None between two steps."""
        if not state.begun:
            return None
        step = self.order[state.at].what
        assert not isinstance(step, Loop)
        return step

    def task(self, step: Step, state: WorkflowState) -> str:
        """Return the task of *step* for a model or a person."""
        template = step.prompt if isinstance(step, AgentStep | PlannedStep) else ""
        return filled(step.question if isinstance(step, HumanStep) else template, state.variables)

    def begin(self, run: RunContext[WorkflowState], step: Step) -> tuple[Message, ...]:
        """Begin *step*, and return the message that a model reads first."""
        state = run.agent_state
        state.begun, state.work = True, StepWork(first_message=len(run.messages))
        state.stuck = self.workflow.stuck.fresh()
        kind = type(step).__name__.removesuffix("Step").lower()
        if isinstance(step, AgentStep) and step.verifier is not None:
            kind = "verified"
        state.visits.append(StepVisit(step.id, kind, len(state.visits) + 1))
        self.emit(run, "step", kind=kind, number=len(state.visits))
        if not isinstance(step, AgentStep) or step.outside:
            return ()
        return (SystemMessage(step_prompt(step, self.task(step, state), step.tools)),)

    def complete(self, run: RunContext[WorkflowState], step: Step, completion: Mapping[str, Any], by: str) -> None:
        """Accept the completion of *step* and move past it. Nothing else advances a workflow."""
        state, notes = run.agent_state, str(completion.get("notes") or "")
        visit = state.visits[-1]
        visit.status, visit.notes, visit.by = "completed", notes, by
        state.variables.update(completion.get("context") or {})
        if step.output and isinstance(step, AgentStep | PlannedStep):
            state.variables[step.output] = notes
        state.document.write(step.id, notes, label=f"visit {visit.number}", source=(by,) if by else ())
        self.emit(run, "completed", notes=notes[:_SHOWN], by=by)
        state.at += 1
        state.begun, state.work = False, StepWork()

    def finish(self, run: RunContext[WorkflowState]) -> Finish:
        """End the workflow after its last step."""
        run.agent_state.ended = True
        self.emit(run, "ended", status="completed")
        return Finish(self.answer(run.agent_state))

    def fail(self, run: RunContext[WorkflowState], why: str) -> str:
        """End the workflow as failed; return the reason."""
        state = run.agent_state
        if not state.failure:
            state.failure = why
            if state.begun:
                state.visits[-1].status = "failed"
            self.emit(run, "ended", status="failed", error=why[:_SHOWN])
        return state.failure

    def answer(self, state: WorkflowState) -> str:
        """Return the final answer."""
        notes = state.visits[-1].notes if state.visits else ""
        return filled(self.workflow.answer, state.variables) if self.workflow.answer else notes or "Done."

    def emit(self, run: RunContext[WorkflowState], name: str, **data: Any) -> None:
        """Send an event about the current step."""
        step = run.agent_state.visits[-1].id if run.agent_state.visits else ""
        run.emit(f"workflow.{name}", {"step": step, **data})
