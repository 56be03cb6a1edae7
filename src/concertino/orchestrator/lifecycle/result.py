"""What a run leaves when it ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ...context_state import ContextReport
from ...events import RunResult, RunStatus
from ...usage import Tokens
from ...waits import Wait
from ..run import Run


def gathered(run: Run[Any], status: RunStatus, error: str | None, waiting: Sequence[Wait] = ()) -> RunResult:
    """How *run* has ended, and all that it used. Nothing can be added to it from now on."""
    run.deadlines.close()
    run.mailbox.close()
    return RunResult(
        run_id=run.id,
        agent_path=run.path,
        status=status,
        text=run.state.text,
        content_index=run.index.value,
        steps=run.state.step,
        tool_calls=dict(run.state.tool_calls),
        usage=run.ledger.records,
        data=dict(run.data),
        messages=tuple(run.added),
        error=error,
        waiting=tuple(waiting),
        receipt=run.tree.receipt() if status == "cancelled" else None,
        context=None if run.skipped is None else run.window.state(run.skipped),
        report=_report(run),
    )


def _report(run: Run[Any]) -> ContextReport:
    report = dataclasses.replace(run.window.report)
    asked = {(record.provider, record.model) for record in run.ledger.records if record.agent_path == run.path}
    if len(asked) == 1:
        ((provider, model),) = asked
        sent = [Tokens(prompt, 0, cached, written) for prompt, cached, written, _, _ in run.window.billed]
        write = bool(report.written)
        whole = [Tokens(most, 0, held, (most - held) * write) for *_, most, held in run.window.billed]
        report.cost, report.untrimmed_cost = (_total(run, provider, model, requests) for requests in (sent, whole))
    return report


def _total(run: Run[Any], provider: str, model: str, requests: list[Tokens]) -> Decimal | None:
    """What *requests* cost, each at the price of its own size; None if that is not known."""
    total = Decimal(0)
    for tokens in requests:
        cost, _ = run.chat.price(provider, model, tokens)
        if cost is None:
            return None
        total += cost
    return total


async def open_waits(run: Run[Any]) -> list[Wait]:
    """The calls that *run* and its sub-agents wait for."""
    store = run.tree.store
    assert store is not None
    below = run.path + "/"
    waits = await store.waits(root_id=run.root_id, limit=10_000)
    return [wait for wait in waits if wait.agent_path == run.path or wait.agent_path.startswith(below)]
