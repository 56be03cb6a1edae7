"""The decision between two turns: messages of the user, the agent's own decision, and the limits of the run."""

from __future__ import annotations

from .hooks import Hooks
from .lifecycle.input import admit, new_steers
from .lifecycle.result import final_outcome
from .meter import at_limit
from .outcome import CONTINUE, Continue, Finish, StepOutcome, Suspend
from .run import RunSession


async def next_step(run: RunSession, hooks: Hooks, last: StepOutcome) -> StepOutcome:
    """Return `Continue` for another step, after applying what the *last* one and the hook decided; else how it ends.

    A run that was about to finish takes another step if a message was sent to it meanwhile. If no step is possible,
    the message only joins the conversation.
    """
    continues = last is CONTINUE or isinstance(last, Continue)
    if not continues and isinstance(last, Suspend):
        return last
    if (run.steers or run.journal.commands > run.journal.processed) and (steers := await new_steers(run)):
        if isinstance(last, Finish):
            run.answer(run.state.text if last.text is None else last.text)
            last, continues = CONTINUE, True
        if (refused := await admit(run, hooks, steers)) is not None:
            return refused
    if not continues:
        return last if run.output is None or not isinstance(last, Finish) else await final_outcome(run, last)
    state, meter = run.state, run.meter
    if state.last_step and state.step >= state.last_step:
        return Finish()
    decide = hooks.should_continue_loop
    decision = await decide(run.context) if decide.own else decide.default(run.context)
    for step in (last, decision):
        if step is not CONTINUE and isinstance(step, Continue):
            run.apply(step)
    most_steps = run.limits.steps or max(100, 2 * run.limits.tool_calls)
    if (
        state.step < most_steps
        and meter.model_calls + meter.open_runs < meter.most_model_calls
        and meter.tool_calls < meter.most_tool_calls
        and meter.received < meter.most_received
        and meter.reached is None
    ) or (state.last_step or not isinstance(decision, Continue)):
        return decision if run.output is None else await final_outcome(run, decision)
    reached = meter.limit() or ("steps", f"the limit of {most_steps:,} steps is reached")
    return await at_limit(run, hooks, *reached, state.step + 1)
