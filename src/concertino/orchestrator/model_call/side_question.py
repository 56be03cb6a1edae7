"""Beside the loop: hooks that take their time, and the questions that they ask a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from ...errors import BudgetError, HookError
from ...events import RunEvent, StoppedWork
from ...messages import UserMessage
from ...providers.base import ModelRequest
from ..hooks import Hooks
from ..lifecycle.recorder import note_asking
from ..run import Ask, Run
from .attempt import Asking


async def meanwhile(run: Run[Any], hook: str, work: Coroutine[Any, Any, Any]) -> AsyncGenerator[RunEvent, None]:
    """The events of a *hook* that may take its time; its value is left in `run.hook_value`.

    A hook that asked a model and found no room for that in a budget leaves None: the run goes on without it.
    """

    async def keep() -> None:
        try:
            run.hook_value = await work
        except HookError as error:
            if not isinstance(error.__cause__, BudgetError):
                raise
            run.state.budget_reached, run.hook_value = True, None
            run.notify("budget_reached", str(error.__cause__))

    run.mailbox.start([keep()])
    try:
        while (event := await run.mailbox.next()) is not None:
            yield event
    finally:
        if not await run.mailbox.stop(run.tree.patience):
            run.tree.note_stopped("not_stopped", StoppedWork(agent_path=run.path, what="hook", name=hook))


def asker(run: Run[Any], hooks: Hooks) -> Ask:
    """What a run's hooks find as `run.ask`. Raises `BudgetError` where a budget has no room for the question."""

    async def ask(prompt: str, *, system: str | None = None) -> str:
        request = ModelRequest(
            model=run.model.name,
            system=run.system if system is None else system,
            messages=(UserMessage(prompt),),
            max_output_tokens=run.limits.output,
        )
        usage = run.next_attempt()
        if run.journal.on:
            reserve = None
            if run.tree.budgeted:
                reserve = run.reserve.reservation(usage, run.model, request, last=True)
            await note_asking(run, usage, run.model, request, reserve, side=True)
        asking = Asking(run, hooks, run.model, request, usage)
        try:
            async for chunk in asking.chunks:
                if (event := asking.take(chunk)) is not None:
                    run.mailbox.put(event)
            run.mailbox.put(await asking.settle())
        except Exception as error:
            await asking.close(error)
            raise
        finally:
            await asking.close()
        return asking.message.text

    return ask
