"""The result of a run: from the run itself when it ends, or from its journal later."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...context_state import ContextReport, ContextState, ModelPrice
from ...errors import InvalidOutputError
from ...events import RunResult, RunStatus
from ...usage import UsageRecord
from ...waits import Wait
from ..journal.replay import Replay
from ..outcome import CONTINUE, Finish, NextStep
from ..resources import KeptConversation
from ..run import RunSession

if TYPE_CHECKING:
    from ..output import Output


def final_outcome(run: RunSession, outcome: NextStep) -> NextStep:
    """Return *outcome*; or another step, in which the model corrects an answer that does not match the output type.

    Call it for an agent with an output type only. While background calls are left, the answer is not the last one.
    """
    assert run.output is not None
    if run.background or not isinstance(outcome, Finish) or outcome.text not in (None, run.state.text):
        return outcome
    from ..output import asked_again, corrections  # noqa: PLC0415 - loaded by now, and slow to import

    try:
        run.output.validate(run.state.text)
    except InvalidOutputError as problem:
        if corrections(run.added) < run.agent.output_retries:
            run.add(asked_again(problem))
            run.state.has_tool_calls = True
            return CONTINUE
    return outcome


def typed_output(run: RunSession, output: Output) -> tuple[Any, str | None]:
    """Return the value of the answer, and the error of an invalid one."""
    try:
        return output.validate(run.state.text), None
    except InvalidOutputError as problem:
        return None, f"the answer does not match the output type: {problem}"


def result_of(
    run: RunSession, status: RunStatus, error: str | None, waiting: Sequence[Wait] = (), output: Any = None
) -> RunResult:
    """Return the result of *run*. Nothing can be added to the run from now on."""
    run.journal.next_context = _context(run)
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


def replayed_result(replay: Replay, usage: Sequence[UsageRecord], output_type: Any = None) -> RunResult:
    """Return the result of a run that has ended, from its journal and the ledger of its tree.

    *output_type* is the agent's: the answer is read again.
    """
    start, end = replay.run.start, replay.run.end
    assert end is not None
    output = None
    if output_type is not None and end.status == "completed":
        from ..output import output_of  # noqa: PLC0415 - slow to import

        output_of_type = output_of(output_type)
        output = None if output_of_type is None else output_of_type.validate(replay.state.text)
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
    waits = await store.waits(run.scope, root_id=run.tree.root_id, limit=10_000)
    return [wait for wait in waits if wait.agent_path == run.path or wait.agent_path.startswith(below)]


def _context(run: RunSession) -> ContextState | None:
    if run.skipped is None:
        return None
    context = run.window.state(run.skipped)
    if run.chat.conversation_id or run.chat.history:  # otherwise no further run is likely
        run.resources.keep(KeptConversation(run.window.folded(context), run.checked))
    return context


def _report(run: RunSession, usage: Sequence[UsageRecord]) -> ContextReport:
    report = dataclasses.replace(run.window.report)
    asked = {(record.provider, record.model) for record in usage if record.agent_path == run.path}
    if len(asked) == 1:
        report.price = ModelPrice(run.resources.price, *asked.pop())
    return report
