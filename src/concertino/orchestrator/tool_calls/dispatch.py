"""The tool calls of one turn: they run concurrently, each within its time, and each has an outcome whatever happens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import EngineError, HookError, StorageError
from ...events import CallWaiting, MediaDigest, ToolDone, ToolFailed, ToolStarted
from ...messages import ToolCall
from ...operations import Operation
from ...waits import MOST_WAITS, Wait
from ..hooks import Hooks
from ..outcome import Outcome, Suspend
from ..recorder import record_calls, record_suspension
from ..run import RunSession
from .approval import NeedsAnswer, answer_text, wait_of
from .context import CallContext, Spawn, SubAgentWaits
from .timeouts import Deadlines
from .tool_call import Call, failed, known_call, may_continue, wait_for

INTERRUPTED = "interrupted: the run was stopped before this tool had ended"
NOT_RUN = "not run: the run was stopped first"
_LOOK = 0.25
"""Seconds between two looks for answers to calls that wait while others of their turn run."""
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""From Python 3.12 on, work that never waits ends without a pass through the event loop."""


class ToolCalls:
    """The calls of one turn.

    *again* is True for a turn that an earlier process began; then `restore` gives each call its stored operation.
    """

    __slots__ = (
        "_again",
        "_calls",
        "_error",
        "_exclusive",
        "_hooks",
        "_open",
        "_owner",
        "_run",
        "_slots",
        "_spawn",
        "_stopping",
        "_waiter",
        "_waits",
        "_width",
        "started",
    )

    def __init__(self, run: RunSession, hooks: Hooks, spawn: Spawn, *, again: bool = False) -> None:
        self.started = False
        """Whether the model's answer is complete and its calls may run."""
        self._run = run
        self._hooks = hooks
        self._spawn = spawn
        self._again = again
        self._width = run.limits.parallel_tools if hooks.config.use_parallel_tools else 1
        self._calls: list[Call] = []
        self._exclusive = False
        """Whether one of the calls runs alone."""
        self._slots: asyncio.Semaphore | None = None
        self._open = 0
        """The number of tasks that have not ended and are waited for."""
        self._error: BaseException | None = None
        self._owner: asyncio.Task[Any] | None = None
        """The task of the run."""
        self._stopping = False
        self._waiter: asyncio.Future[None] | None = None
        self._waits = False
        """Whether one of the calls waits."""

    def __len__(self) -> int:
        return len(self._calls)

    # -- before they run -----------------------------------------------------------------------------------------

    def start_early(self, calls: Sequence[ToolCall]) -> None:
        """Start the newest of *calls*, of a turn that the model is still writing, if its tool only reads."""
        for index in range(len(self._calls), len(calls)):
            call = known_call(calls[index], self._run.registry)
            before = self._run.state.calls_of.get(call.name, 0)
            same = [other.name for other in calls[: index + 1]].count(call.name)
            early = Call(self._run, self._hooks, index, call, before + same)
            self._calls.append(early)
            self._exclusive = self._exclusive or early.exclusive
            reads = early.tool is not None and early.tool.effect == "read" and not early.remote
            if reads and index < self._width and (not self._exclusive or index < self._reachable()):
                self._start(early)

    def keeps_early(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether the calls that started early are those of the answer. If not, they must be stopped."""
        return len(self._calls) <= len(calls) and all(early.call == calls[early.index] for early in self._calls)

    def plan(self, calls: Sequence[ToolCall], native: frozenset[str], cut_off: ToolCall | None) -> None:
        """Set the turn's calls, count them, and record their operations with the answer.

        *native* are the ids of the calls that are part of the model's message.
        """
        run, state, count = self._run, self._run.state, len(calls)
        self.started = True
        if not self._again:
            for call in calls:
                state.calls_of[call.name] = state.calls_of.get(call.name, 0) + 1
            run.meter.tool_calls += count
            run.count_calls({run.path: state.tool_calls.get(run.path, 0) + count})
        for early in self._calls:
            early.siblings, early.native = count, early.call.id in native
            early.cut_early()
        for index in range(len(self._calls), count):
            call = calls[index]
            later = [other.name for other in calls[index + 1 :]].count(call.name) if index + 1 < count else 0
            planned = Call(run, self._hooks, index, call, state.calls_of[call.name] - later)
            planned.siblings, planned.native, planned.cut_off = count, call.id in native, call is cut_off
            self._calls.append(planned)
            self._exclusive = self._exclusive or planned.exclusive
        if run.journal.on and not self._again:
            self._note_planned()

    def _note_planned(self) -> None:
        """Record the operations; those whose start the store must know of start with this entry, if they can."""
        at_once = min(self._width, self._reachable()) if self._exclusive else self._width
        if self._hooks.authorize_tool_call.own:
            at_once = 0
        for planned in self._calls:
            if planned.declared and planned.index < at_once and not planned.cut_off:
                planned.apply("start")
            planned.note()

    def restore(
        self, operations: Mapping[str, Operation], waits: Sequence[Wait], ending: Collection[str], *, sure: bool
    ) -> None:
        """Continue from the stored operations and answers of an earlier process.

        *ending* are the keys of the calls whose results end the run.
        """
        for call in self._calls:
            operation = operations.get(call.key)
            if operation is not None:
                approved = operation.state == "planned" or operation.waits_for == "sub_agent"
                kind = "approval" if approved else operation.waits_for
                call.restore(operation, _answer(waits, call.key, kind), sure=sure)
                if call.outcome is not None and call.key in ending:
                    call.outcome.ends_run = True

    # -- running -------------------------------------------------------------------------------------------------

    async def run(self) -> Suspend | None:
        """Run the calls until each has an outcome or waits. Return None, or the keys of the calls that need an answer.

        Raises `EngineError` if two passes in a row change the state of no call: the loop must never spin.
        """
        before = None
        while True:
            self._start_calls()
            await self._all_done()
            while self._exclusive and self._start_calls():
                await self._all_done()
            if self._finished():
                return None
            if not self._run.journal.on or not await self._take_answers():
                if not await self._background_call_ends():
                    return await self._suspend()
                continue  # meanwhile an answer may have come
            transitions = sum([call.transitions for call in self._calls])
            if transitions == before:
                raise EngineError(f"step {self._run.state.step} of run {self._run.id} made no progress: report this")
            before = transitions

    def _start_calls(self) -> list[Call]:
        """Start the calls that may start now, and return them."""
        calls = self._calls if not self._exclusive else self._calls[: self._reachable()]
        ready = [call for call in calls if call.outcome is None and call.task is None and self._may_start(call)]
        if len(ready) > self._width and self._slots is None:
            self._slots = asyncio.Semaphore(self._width)
        for call in ready:
            self._start(call)
        return ready

    def _reachable(self) -> int:
        """Return the number of calls before the next exclusive call, and count it once all of them have ended."""
        for index, call in enumerate(self._calls):
            if call.exclusive and call.outcome is None:
                return index + all(before.outcome is not None for before in self._calls[:index])
        return len(self._calls)

    def _may_start(self, call: Call) -> bool:
        """Return whether a call needs no answer from outside: a resumed call starts its sub-agent again."""
        return call.state != "waiting" or ((self._again or call.repeated) and call.waits_for == "sub_agent")

    async def _take_answers(self) -> bool:
        """Apply the answers that have arrived. Return whether one has."""
        store = self._run.tree.store
        assert store is not None
        waits: Sequence[Wait] = ()
        if any(call.state == "waiting" and call.waits_for != "sub_agent" for call in self._calls):
            waits = await store.waits(self._run.scope, run_id=self._run.id, open=False, limit=MOST_WAITS)
        taken = any([await may_continue(call, store, self._run.scope) for call in self._calls])
        for call in self._calls:
            wait = _answer(waits, call.key, call.waits_for) if call.state == "waiting" else None
            if wait is None:
                continue
            call.answer, call.task = wait, None
            answered = answer_text(wait)
            call.apply("approve" if answered is None else "deny" if answered[1] else "resolve")
            taken = True
        return taken

    async def _background_call_ends(self) -> bool:
        """Wait until a background call of the run has ended. Return False if none is running."""
        return self._run.background is not None and await self._run.background.next()

    async def _suspend(self) -> Suspend:
        for call in self._calls:
            call.note()
        await record_suspension(self._run)
        return Suspend(tuple([c.key for c in self._calls if c.state == "waiting" and c.waits_for != "sub_agent"]))

    # -- one call ------------------------------------------------------------------------------------------------

    async def _one(self, call: Call) -> None:  # noqa: C901 - one branch for each way in which a call can end
        """Run one call from its start to its outcome."""
        run = self._run
        context = CallContext(
            run,
            self._hooks,
            call.call,
            call.index,
            call.ordinal,
            self._spawn,
            siblings=call.siblings,
            again=self._again or call.repeated,
        )
        context.report(ToolStarted, call.call.arguments)
        deadlines: Deadlines | None = None
        try:
            tool = call.tool
            if tool is not None and tool.timeout is not None:
                deadlines = run.deadlines = run.deadlines or Deadlines()
                deadlines.add(call, tool.timeout, partial(self._expire, call, context))
            outcome = await call.perform(context, again=self._again or call.repeated)
        except asyncio.CancelledError:
            why = self._why_cancelled(call)
            if why is None:
                raise
            outcome = call.failure(why)
        except HookError as error:
            raise error.during(call.call.name, call.call.id)  # noqa: B904 - the same error: it ends the run
        except StorageError:
            raise  # a run cannot continue without its store
        except (SubAgentWaits, NeedsAnswer) as needs:
            await self._wait(call, context, needs)
            return
        except BaseException as error:
            if isinstance(error, GeneratorExit) and asyncio.current_task() is not call.task:
                raise  # the coroutine itself is being closed
            outcome = call.failure(error)
        finally:
            if deadlines is not None:
                deadlines.remove(call)
        call.executing = None
        if not call.abandoned:
            outcome.progress = context.end_progress()
            await self._end(call, outcome, context)

    async def _end(self, call: Call, outcome: Outcome, context: CallContext) -> None:
        call.end(outcome)
        if self._run.journal.on and (self._is_urgent(call) or (outcome.ends_run and self.started)):
            await call.record()
        self._emit_end(call, context)

    def _is_urgent(self, call: Call) -> bool:
        """Return whether the outcome of an effect must be recorded at once.

        It does not wait for other calls, nor for the questions of an agent that decides about its next turn itself.
        """
        return call.declared and (not self._finished() or self._hooks.answer_without_model.own)

    def _emit_end(self, call: Call, context: CallContext) -> None:
        outcome = call.outcome
        assert outcome is not None
        if outcome.is_error:
            context.report(ToolFailed, outcome.content, self._again)
        else:
            media: tuple[MediaDigest, ...] = ()
            if outcome.media:
                media = tuple([MediaDigest(each.media_type, each.name, each.digest) for each in outcome.media])
            whole = outcome.content if outcome.whole is None else outcome.whole
            summary = None if outcome.retain != "once" else outcome.summary or ""
            context.report(ToolDone, whole, outcome.data, outcome.stored, media, summary, self._again)

    async def _wait(self, call: Call, context: CallContext, needs: SubAgentWaits | NeedsAnswer) -> None:
        call.executing = None
        self._waits = self._run.journal.on
        if isinstance(needs, SubAgentWaits):
            wait_for(call, needs.waits)
            return
        run = self._run
        if not run.journal.on:
            kind = "an approval" if needs.kind == "approval" else "a result from outside"
            problem = f"cannot wait for {kind}: the run has no store"
            run.notify("no_store", f"{call.call.name} {problem}; pass Resources(store=...)")
            await self._end(call, failed(call.call, problem), context)
            return
        wait = wait_of(run, call.call, call.key, needs)
        call.apply("wait", needs.kind)
        run.journal.operation(call.operation(), wait)
        await record_calls(run)
        context.report(CallWaiting, call.key, needs.kind, needs.arguments, needs.who, needs.note, needs.seconds)

    # -- tasks ---------------------------------------------------------------------------------------------------

    def _start(self, call: Call) -> None:
        if self._owner is None:
            self._owner = asyncio.current_task()
        self._open += 1
        call.task = asyncio.Task(self._watched(call, self._slots), loop=asyncio.get_running_loop(), **_EAGER)

    async def _watched(self, call: Call, slots: asyncio.Semaphore | None) -> None:
        """Run one call in its own task, once one of the *slots* is free."""
        if call.task is None:  # an eager start runs before the assignment
            call.task = asyncio.current_task()
        try:
            if slots is None:
                await self._one(call)
            else:
                await self._one_in_slot(call, slots)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - `_all_done` raises it
            self._error = self._error or error
        finally:
            if not call.abandoned:
                self._done()

    async def _one_in_slot(self, call: Call, slots: asyncio.Semaphore) -> None:
        await slots.acquire()
        try:
            await self._one(call)
        finally:
            if not call.abandoned:
                slots.release()

    def _done(self) -> None:
        self._open -= 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _all_done(self) -> None:
        """Wait until every call has ended or waits. Raises the first error of a hook or the store."""
        if self._open or _EAGER:  # calls that have ended at once must not starve the run's other tasks
            await asyncio.sleep(0)  # most calls end in their first pass, and this is the cheapest way to give it
        while self._open and self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            if self._waits:
                await self._end_or_answer(self._waiter)
            else:
                await self._waiter
        self._waiter = None
        if self._error is not None:
            raise self._error

    async def _end_or_answer(self, ended: asyncio.Future[None]) -> None:
        """Wait until a call has *ended*, or for a moment; then continue the calls that have got an answer meanwhile."""
        await asyncio.wait([ended], timeout=_LOOK)
        if self._open and self._error is None and await self._take_answers():
            self._start_calls()

    async def stop(self, patience: float) -> None:
        """Cancel the calls that run and wait at most *patience* seconds for them."""
        self._stopping = True
        running = [call.task for call in self._calls if call.task is not None and not call.task.done()]
        for task in running:
            task.cancel()
        if running:
            _, pending = await asyncio.wait(running, timeout=patience)
            for call in self._calls:
                call.abandoned = call.abandoned or call.task in pending
        self._open, self._error = 0, None

    def _expire(self, call: Call, context: CallContext) -> None:
        assert call.task is not None
        call.expired = True
        call.task.cancel()
        assert self._run.deadlines is not None
        self._run.deadlines.add(call, self._run.tree.patience, partial(self._abandon, call, context))

    def _abandon(self, call: Call, context: CallContext) -> None:
        """Continue without a tool that ignores its cancellation."""
        assert call.task is not None
        if call.task.done():
            return
        outcome = call.failure(_overdue(call))
        outcome.progress = context.end_progress()
        call.end(outcome)
        self._emit_end(call, context)
        call.abandoned = True
        self._done()
        if self._slots is not None:
            self._slots.release()

    def _why_cancelled(self, call: Call) -> str | None:
        """Return the model's text for a cancelled call; None if the run itself is being cancelled.

        The state of the tasks tells it: a tool may raise `CancelledError`, or cancel the task that it runs in.
        """
        task, owner = asyncio.current_task(), self._owner
        assert task is not None
        if call.expired and task.uncancel() == 0:
            return _overdue(call)
        if task.cancelling() and (self._stopping or owner is None or owner.cancelling()):
            return None
        while task.cancelling():
            task.uncancel()
        return "the tool was cancelled from within"

    # -- results -------------------------------------------------------------------------------------------------

    def _finished(self) -> bool:
        return not [call for call in self._calls if call.outcome is None]

    def outcomes(self) -> list[Outcome]:
        """Return one outcome per call; the outcome of a stopped call names the stop."""
        return [
            call.outcome or Outcome(call.call, NOT_RUN if call.state == "planned" else INTERRUPTED, is_error=True)
            for call in self._calls
        ]

    def close(self) -> None:
        """Close the operations: the conversation contains their outcomes."""
        if self._run.journal.on:
            self._run.journal.close([call.key for call in self._calls])

    def note_stopped(self) -> None:
        """Add the calls that were running to the tree's receipt."""
        for call in self._calls:
            call.note_stopped()


def _answer(waits: Sequence[Wait], key: str, kind: str | None) -> Wait | None:
    """Return the newest answered wait of a call; of *kind* unless that is None."""
    found = [w for w in waits if w.key == key and w.resolution is not None and kind in (None, w.kind)]
    return found[-1] if found else None


def _overdue(call: Call) -> str:
    return f"no result within the time limit of {call.tool.timeout if call.tool else 0:g} s"
