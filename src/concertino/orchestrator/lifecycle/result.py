"""The result of a run: from the run itself when it ends, or from its journal later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...context_state import ContextReport, ModelPrice
from ...errors import InvalidOutputError, LimitError
from ...events import RunResult, RunStatus
from ...usage import UsageRecord
from ...waits import MOST_WAITS, Wait
from ..hooks import Hooks, reviewed_text, within_patience
from ..journal.replay import Replay
from ..outcome import CONTINUE, Finish, Limited, NextStep
from ..resources import KeptConversation
from ..run import RunSession

if TYPE_CHECKING:
    from ..output import Output


async def final_outcome(run: RunSession, outcome: NextStep) -> NextStep:
    """Return *outcome*; or another step, in which the model corrects an answer that does not match the output type.

    Call it for an agent with an output type only. While background calls are left, the answer is not the last one.
    """
    assert run.output is not None
    if run.background or not isinstance(outcome, Finish) or outcome.text not in (None, run.state.text):
        return outcome
    from ..output import asked_again, corrections  # noqa: PLC0415 - loaded by now, and slow to import

    try:
        await run.output.validate(run.state.text)
    except InvalidOutputError as problem:
        if corrections(run.added) < run.agent.output_retries:
            run.add(asked_again(problem))
            run.state.has_tool_calls = True
            return CONTINUE
    return outcome


async def concluded(run: RunSession, hooks: Hooks, outcome: NextStep | Limited) -> NextStep | Limited:
    """Set the answer of a run that ends with *outcome*. Return `Limited` if a limit has left it without one."""
    if isinstance(outcome, Finish):
        run.answer(run.state.text if outcome.text is None else outcome.text)
    before = run.state.text
    if hooks.conclude.own:
        try:
            text = await within_patience(run, "conclude", hooks.conclude(run.context, before))
            run.answer(text if text == before else await reviewed_text(run, hooks, text))
        except LimitError as reached:
            run.notify("budget_reached" if reached.reason == "budget" else "limit_reached", str(reached))
    if isinstance(outcome, Limited) and run.state.text not in (before, ""):
        return Finish()  # the agent has an answer of its own
    if isinstance(outcome, Finish) and run.state.limit is not None and not run.state.text.strip():
        return Limited("no answer was possible within the limits")
    return outcome


async def typed_output(run: RunSession, output: Output, *, replaced: bool) -> tuple[Any, str | None]:
    """Return the value of the answer, and the error of an invalid one.

    If the agent has *replaced* the model's answer by a text of its own, such as a refusal, that text need not be a
    value.
    """
    try:
        return await output.validate(run.state.text), None
    except InvalidOutputError as problem:
        return None, None if replaced else f"the answer does not match the output type: {problem}"


def result_of(
    run: RunSession, status: RunStatus, error: str | None, waiting: Sequence[Wait] = (), output: Any = None
) -> RunResult:
    """Return the result of *run*. Nothing can be added to the run from now on."""
    if run.unread is not None:
        run.unread.leave_out()
    run.journal.next_context = None if run.skipped is None else run.window.state(run.skipped)
    run.ended, usage = True, run.tree.ledger.records(run.path, run.first_record)
    if run.deadlines is not None:
        run.deadlines.close()
    return RunResult(
        run_id=run.id,
        agent_path=run.path,
        status=status,
        text=run.state.text,
        content_index=run.tree.content_index,
        steps=run.state.step,
        tool_calls=dict(run.state.tool_calls),
        usage=usage,
        data=dict(run.data),
        messages=tuple(run.added),
        output=output,
        error=error,
        waiting=tuple(waiting),
        receipt=run.tree.receipt() if status == "cancelled" else None,
        context=run.journal.next_context,
        report=_report(run, usage),
    )


async def replayed_result(replay: Replay, usage: Sequence[UsageRecord], output_type: Any = None) -> RunResult:
    """Return the result of a run that has ended, from its journal and the ledger of its tree.

    *output_type* is the agent's: the answer is read again. Other texts, such as refusals, have no value.
    """
    start, end = replay.run.start, replay.run.end
    assert end is not None
    output = None
    if output_type is not None and end.status == "completed":
        from ..output import output_of  # noqa: PLC0415 - slow to import

        output_of_type = output_of(output_type)
        with suppress(InvalidOutputError):
            output = None if output_of_type is None else await output_of_type.validate(replay.state.text)
    path = start.agent_path
    return RunResult(
        run_id=start.run_id,
        agent_path=path,
        status=end.status,
        text=replay.state.text,
        content_index=replay.index,
        steps=replay.state.step,
        tool_calls=dict(replay.state.tool_calls),
        usage=tuple([r for r in usage if r.agent_path == path or r.agent_path.startswith(path + "/")]),
        data=dict(replay.data),
        messages=tuple(replay.added),
        output=output,
        error=replay.error,
        receipt=replay.receipt,
        context=replay.context,
    )


async def open_waits(run: RunSession) -> list[Wait]:
    """Return the open waits of *run* and its sub-agents."""
    store = run.tree.store
    assert store is not None
    below = run.path + "/"
    waits = await store.waits(run.scope, root_id=run.tree.root_id, limit=MOST_WAITS)
    return [wait for wait in waits if wait.agent_path == run.path or wait.agent_path.startswith(below)]


def keep_conversation(run: RunSession) -> None:
    """Keep the conversation for its next run in this process. The run's window must not be used afterwards."""
    context = run.journal.next_context
    if context is not None:
        run.resources.keep(KeptConversation(context, run.window, run.checked))


def _report(run: RunSession, usage: Sequence[UsageRecord]) -> ContextReport:
    report = run.window.report
    asked = {(record.provider, record.model) for record in usage if record.agent_path == run.path}
    if len(asked) == 1:
        report.price = ModelPrice(run.resources.cost_of, *asked.pop())
    return report
