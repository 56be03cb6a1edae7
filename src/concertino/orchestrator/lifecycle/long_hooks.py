"""Hooks that may take long, at the start and the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ...errors import BudgetError, HookError
from ...events import StoppedWork
from ..hooks import Hooks
from ..outcome import Fail, Finish
from ..run import RunSession

T = TypeVar("T")
WITHHELD = "[This message was not admitted.]"
"""Stands in the conversation for a user's message that the agent did not admit."""


async def within_patience(run: RunSession, hook: str, work: Coroutine[Any, Any, T]) -> T | None:
    """Run a *hook* that may take long. A cancelled run does not wait for a hook that ignores its cancellation.

    Returns None if no budget covers a question that the hook asked: the run continues without the hook's value.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=run.tree.patience)
        if not done:
            run.tree.note_stopped("not_stopped", StoppedWork(agent_path=run.path, what="hook", name=hook))
        raise
    try:
        return task.result()
    except HookError as error:
        if not isinstance(error.__cause__, BudgetError):
            raise
        run.state.budget_reached = True
        run.notify("budget_reached", str(error.__cause__))
        return None


async def reviewed_input(run: RunSession, hooks: Hooks, text: str) -> str | Finish | Fail:
    """Return a user's message as the agent admits it, or how the run ends instead."""
    if not hooks.review_input.own:
        return text
    reviewed = await within_patience(run, "review_input", hooks.review_input(run.context, text))
    return Finish() if reviewed is None else reviewed  # what could not be reviewed is not admitted
