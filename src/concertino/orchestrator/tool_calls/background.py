"""Background calls: a turn gets a handle at once, and the result enters the conversation when it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import HookError, LimitReason, StorageError
from ...ids import call_key
from ...messages import ToolCall, UserMessage
from ...tools.base import Tool
from ..hooks import Hooks
from ..lifecycle.seal import seal_below
from ..outcome import CONTINUE, Continue, Finish, Limited, StepOutcome, Suspend, card_line
from ..recorder import record_suspension
from ..run import RunSession
from .context import CallContext, Spawn, SubAgentWaits
from .tool_call import Call, failed, failed_by, may_continue, wait_for

STARTED = (
    "started in the background as {handle}. The result will follow in a message. Continue with other work; if there is "
    "none, end your turn, and you will be called again with the result."
)
_OWN_LIMITS: tuple[LimitReason, ...] = ("tool_calls", "steps")
"""Limits of the run alone: at one of them, its background calls may still end."""


class BackgroundCall(Call):
    """A call that its turn did not wait for. The turn has checked and allowed it, with these *arguments*."""

    __slots__ = ("arguments", "step")

    def __init__(
        self,
        run: RunSession,
        hooks: Hooks,
        step: int,
        index: int,
        call: ToolCall,
        ordinal: int | str,
        arguments: dict[str, Any],
    ) -> None:
        super().__init__(run, hooks, index, call, ordinal)
        self.step = step
        self.arguments = arguments
        self.siblings = 1
        self.in_background = False  # it runs here
        self._key = call_key(run.id, step, index)

    @property
    def handle(self) -> str:
        """The name under which the model knows the call."""
        return f"{self.call.name}-{self.ordinal}"

    async def _arguments(self, tool: Tool, _context: CallContext) -> dict[str, Any]:
        checked = tool.validate(self.arguments)
        return checked if isinstance(checked, dict) else await checked


class BackgroundContext(CallContext):
    """The context of a background call, which belongs to the step that made it, not to the run's current one."""

    __slots__ = ()

    def __init__(self, run: RunSession, hooks: Hooks, call: BackgroundCall, spawn: Spawn, *, again: bool) -> None:
        super().__init__(run, hooks, call.call, call.index, call.ordinal, spawn, siblings=1, again=again)
        self._step = call.step


class BackgroundCalls:
    """The background calls of one run whose results are not part of the conversation yet.

    Each entry of the journal that has a position contains them. A result joins the conversation in the entry that has
    its call no more, so it is delivered once, however often the run is resumed. A resumed run starts all of them again,
    and each finds its sub-agent.
    """

    __slots__ = ("_calls", "_error", "_hooks", "_run", "_slots", "_spawn", "_stopping")

    def __init__(self, run: RunSession, hooks: Hooks, spawn: Spawn) -> None:
        self._run = run
        self._hooks = hooks
        self._spawn = spawn
        self._calls: dict[str, BackgroundCall] = {}
        self._slots = asyncio.Semaphore(run.limits.parallel_tools if hooks.config.use_parallel_tools else 1)
        self._error: Exception | None = None
        self._stopping = False

    def __len__(self) -> int:
        return len(self._calls)

    def start(self, call: Call, arguments: dict[str, Any], *, again: bool) -> str:
        """Start *call* and return the text that the model reads now."""
        run = self._run
        step = run.state.step
        made = BackgroundCall(run, self._hooks, step, call.index, call.call, call.ordinal, arguments)
        if made.key not in self._calls:
            self._launch(made, again=again)
        return STARTED.format(handle=made.handle)

    def restore(self, rows: Iterable[Sequence[Any]]) -> None:
        """Start the calls that an earlier process left."""
        for step, index, call_id, name, ordinal, arguments in rows:
            call = ToolCall(call_id, name, "")
            self._launch(BackgroundCall(self._run, self._hooks, step, index, call, ordinal, arguments), again=True)

    def rows(self) -> list[list[Any]]:
        """Return the calls as JSON, for `restore`. They do not name the run, so that a fork has its own."""
        return [
            [call.step, call.index, call.call.id, call.call.name, call.ordinal, call.arguments]
            for call in self._calls.values()
        ]

    # -- the course of the run -----------------------------------------------------------------------------------

    async def before_step(self) -> None:
        """Deliver the results that are ready; before the last step at a limit of the run's own, wait for the others."""
        state = self._run.state
        if state.last_step == state.step + 1 and state.limit in _OWN_LIMITS:
            while await self.next():
                pass
        self._deliver()
        store = self._run.tree.store
        for call in self._calls.values():
            if store is not None and await may_continue(call, store, self._run.scope):
                self._launch(call, again=True)

    async def next(self) -> bool:
        """Wait until one of the running calls has ended or waits. Return False if none is running."""
        running = [call.task for call in self._calls.values() if call.task is not None and not call.task.done()]
        if running:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        self._check()
        return bool(running)

    async def settled(self, outcome: StepOutcome) -> StepOutcome:
        """Return what follows when the run would end with *outcome*.

        A run that would finish waits for a result and takes another step; it is suspended if all calls that are left
        wait. A run that fails, or has reached a limit, stops them.
        """
        run = self._run
        match outcome:
            case Continue() | Suspend():
                return outcome
            case Finish(text) if run.state.limit is None:
                while self._calls and not any(call.outcome for call in self._calls.values()):
                    if not await self.next():
                        await record_suspension(run, outcome)
                        return Suspend(())
                if not self._calls:
                    return outcome
                run.answer(run.state.text if text is None else text)
                self._deliver()
                # A result is read even if the answers in between have used up the agent's iterations.
                run.state.iteration = min(run.state.iteration, max(run.limits.tool_calls - 1, 0))
                return CONTINUE
            case _:
                await self._give_up(outcome)
                return outcome

    async def stop(self) -> None:
        """Cancel the calls that run, wait for them as long as the tree is patient, and add them to its receipt."""
        self._stopping = True
        running = [call for call in self._calls.values() if call.task is not None and not call.task.done()]
        tasks = [call.task for call in running if call.task is not None]
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._run.tree.patience)
        finally:
            for call in running:
                call.note_stopped()

    async def _give_up(self, outcome: StepOutcome) -> None:
        await self.stop()
        if any(call.state == "waiting" for call in self._calls.values()):
            why = "the run above it has ended" if not isinstance(outcome, Limited) else outcome.why
            await seal_below(self._run.tree, "cancelled", why, suspended=self._run.path)

    def _deliver(self) -> None:
        """Move the results that are ready to the conversation."""
        self._check()
        run = self._run
        for call in list(self._calls.values()):
            if (outcome := call.outcome) is None:
                continue
            del self._calls[call.key]
            head = f"[{call.handle} failed]" if outcome.is_error else f"[result of {call.handle}]"
            line = card_line(outcome) if run.registry.takes_cards else ""
            text = f"{head}\n{outcome.content}{line}"
            run.add(UserMessage(text, outcome.media, call.call.name, outcome.stored))
            if outcome.data is not None and outcome.stored:
                run.keep_data(call.call.name, outcome.data)
            run.state.has_tool_calls = True  # the model has something to read

    def _check(self) -> None:
        """Raise the first error of a hook or the store: it ends the run."""
        if self._error is not None:
            raise self._error

    # -- one call ------------------------------------------------------------------------------------------------

    def _launch(self, call: BackgroundCall, *, again: bool) -> None:
        self._calls[call.key] = call
        call.task = asyncio.create_task(self._one(call, again=again))

    async def _one(self, call: BackgroundCall, *, again: bool) -> None:
        context = BackgroundContext(self._run, self._hooks, call, self._spawn, again=again)
        try:
            async with self._slots:
                outcome = await call.perform(context, again=again)
        except SubAgentWaits as needs:
            wait_for(call, needs.waits)
            return
        except asyncio.CancelledError:
            if self._stopping:
                raise
            outcome = failed(call.call, "the tool was cancelled from within")
        except (HookError, StorageError) as error:
            self._error = self._error or error
            return
        except BaseException as error:
            if isinstance(error, GeneratorExit) and asyncio.current_task() is not call.task:
                raise  # the coroutine itself is being closed
            outcome = failed_by(call.call, error)
        call.executing = None
        context.end_progress()
        call.end(outcome)
