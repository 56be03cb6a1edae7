"""What a run leaves when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..events import RunResult, RunStatus
from ..waits import Wait
from .run import Run


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
    )


async def open_waits(run: Run[Any]) -> list[Wait]:
    """The calls that *run* and its sub-agents wait for."""
    store = run.tree.store
    assert store is not None
    below = run.path + "/"
    waits = await store.waits(root_id=run.root_id, limit=10_000)
    return [wait for wait in waits if wait.agent_path == run.path or wait.agent_path.startswith(below)]
