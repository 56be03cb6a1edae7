"""Running the tools of one turn: side by side, each within its time, and each with an outcome, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...errors import HookError, StorageError, ToolError
from ...events import CallWaiting, StoppedWork, ToolDone, ToolFailed, ToolStarted
from ...messages import ToolCall
from ...operations import Operation
from ...tools.base import Tool
from ...waits import Wait
from ..hooks import Hooks
from ..journal.replay import OpenTurn
from ..lifecycle.recorder import note_outcomes, scope_of
from ..lifecycle.repair import INTERRUPTED
from ..outcome import Outcome
from ..run import Run
from .approval import Waiting, open_wait
from .call import Job, described, failed
from .context import CallContext, ChildWaits, SpawnFor


class Dispatch:
    """The calls of one turn: `start`, then read the run's mailbox to its end. Then `outcomes` has one for each call
    that has ended, and `open_keys` tells the others.

    *turn* is the turn as the journal knows it, if the run was taken up in the middle of it.
    """

    __slots__ = ("_gate", "_hooks", "_jobs", "_run", "_spawn", "_turn", "started")

    def __init__(self, run: Run[Any], hooks: Hooks, spawn: SpawnFor, turn: OpenTurn | None = None) -> None:
        self._run = run
        self._hooks = hooks
        self._spawn = spawn
        self._turn = turn
        self._jobs: list[Job] = []
        self._gate: asyncio.Semaphore | None = None
        self.started = False

    @property
    def again(self) -> bool:
        """Whether the calls may have begun in another life of the run."""
        return self._turn is not None

    # -- starting ------------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self._run.limits.parallel_tools if self._hooks.config.use_parallel_tools else 1

    def start_early(self, calls: Sequence[ToolCall]) -> None:
        """Begin the newest of *calls*, of a turn that the model is still writing, if its tool only reads."""
        self._run.calls_at_once = 0  # nobody knows yet
        for place in range(len(self._jobs), len(calls)):
            call = calls[place]
            before = self._run.state.calls_of.get(call.name, 0)
            same = [other.name for other in calls[: place + 1]].count(call.name)
            job = Job(self._run, self._hooks, place, call, before + same)
            self._jobs.append(job)
            if job.tool is not None and job.tool.effect == "read" and place < self._width:
                (job.task,) = self._run.mailbox.start([self._one(job)])

    def kept_early(self, calls: Sequence[ToolCall]) -> bool:
        """Whether the calls that began early are those of the answer. They must be ended if not."""
        return len(self._jobs) <= len(calls) and all(job.call == calls[job.place] for job in self._jobs)

    def begun_at_once(self, calls: Sequence[ToolCall]) -> list[int]:
        """Which `once` calls begin as soon as the answer is on record. The others say so by themselves."""
        if self._hooks.authorizes:
            return []
        tools = [self._run.registry.get(call.name) for call in calls[: self._width]]
        return [place for place, tool in enumerate(tools) if tool is not None and tool.effect == "once"]

    def count(self, calls: Sequence[ToolCall]) -> None:
        """Enter *calls* among those that the run has made."""
        run, state = self._run, self._run.state
        for call in calls:
            state.calls_of[call.name] = state.calls_of.get(call.name, 0) + 1
        state.tool_calls[run.path] = total = state.tool_calls.get(run.path, 0) + len(calls)
        if run.journal.on:
            run.journal.count(run.path, total)

    def start(self, calls: Sequence[ToolCall], begun: Sequence[int] = (), waits: dict[str, Wait] | None = None) -> None:
        """Begin all *calls* that have no outcome yet; more than may run side by side wait for their turn.

        *begun* are the places of those that the journal says begin now. *waits* are those of the run by key, with what
        has been answered since.
        """
        self._run.calls_at_once = len(calls)
        if not self.started:
            for job in self._jobs:
                job.cut_early()
            self._make_jobs(calls, begun)
        if waits:
            self._take_answers(waits)
        jobs = [job for job in self._jobs if job.outcome is None and not (job.waits or job.has_child or job.task)]
        one = self._one
        if len(jobs) > self._width:
            self._gate = asyncio.Semaphore(self._width)
            one = self._gated
        for job, task in zip(jobs, self._run.mailbox.start([one(job) for job in jobs]), strict=True):
            job.task = task

    def _make_jobs(self, calls: Sequence[ToolCall], begun: Sequence[int]) -> None:
        self.started = True
        calls_of, jobs = self._run.state.calls_of, self._jobs
        for place in range(len(jobs), len(calls)):
            call = calls[place]
            later = [other.name for other in calls[place + 1 :]].count(call.name) if place + 1 < len(calls) else 0
            jobs.append(Job(self._run, self._hooks, place, call, calls_of[call.name] - later))
        for place in begun:
            jobs[place].begun = True
        if (turn := self._turn) is not None:
            for job in jobs:
                job.outcome = turn.outcomes.get(job.place)
                job.recorded = job.outcome is not None
                job.begun = job.place in turn.begun
                job.waits = job.place in turn.waiting
                job.unsure = turn.unsure

    def _take_answers(self, waits: dict[str, Wait]) -> None:
        for job in self._jobs:
            wait = waits.get(self._run.call_key(job.place))
            if wait is not None and wait.resolution is not None and job.outcome is None:
                job.answer, job.waits, job.task = wait, False, None
                self._run.journal.take([wait.key])

    async def _gated(self, job: Job) -> None:
        assert self._gate is not None
        await self._gate.acquire()
        try:
            await self._one(job)
        finally:
            if not job.left:
                self._gate.release()

    # -- one call ------------------------------------------------------------------------------------------------

    async def _one(self, job: Job) -> None:  # noqa: C901 - one line for each way in which a call can end
        """One call, from its start to its outcome."""
        run, call = self._run, job.call
        context = CallContext(run, call, self._spawn, job.ordinal, job.place, self.again)
        context.emit(ToolStarted, call.arguments)
        try:
            tool = self._tool(call)
            if tool.timeout is not None:
                run.deadlines.add(job, tool.timeout, partial(self._expire, job, context))
            outcome = await job.perform(tool, context, again=self.again)
        except asyncio.CancelledError:
            why = self._why_cancelled(job)
            if why is None:
                raise
            outcome = failed(call, why)
        except (HookError, StorageError):
            raise  # hooks decide, and one that cannot ends the run; and without its store a run cannot go on
        except (ChildWaits, Waiting) as pause:
            await self._pause(job, context, pause)
            return
        except ToolError as error:
            outcome = failed(call, str(error))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a failing tool never fails the run, nor ends the program
            outcome = failed(call, described(error))
        finally:
            run.deadlines.remove(job)
        job.working = None
        if not job.left:
            outcome.progress = context.end_progress()
            if job.begun and run.journal.on:
                await self._keep(job, outcome)
            self._end(job, outcome, context)

    def _tool(self, call: ToolCall) -> Tool:
        tool = self._run.registry.get(call.name)
        if tool is None:
            names = ", ".join(self._run.registry.names()) or "none"
            raise ToolError(f"there is no tool {call.name!r}; the tools are: {names}")
        return tool

    async def _keep(self, job: Job, outcome: Outcome) -> None:
        """The outcome of a `once` call does not wait for its siblings: it is on record at once."""
        job.outcome = outcome
        if any(other.outcome is None for other in self._jobs):
            await note_outcomes(self._run, {job.place: outcome})
            job.recorded = True

    def _end(self, job: Job, outcome: Outcome, context: CallContext) -> None:
        job.outcome = outcome
        if outcome.is_error:
            context.emit(ToolFailed, outcome.content)
            return
        context.emit(ToolDone, outcome.content if outcome.whole is None else outcome.whole, outcome.data)

    # -- waiting -------------------------------------------------------------------------------------------------

    async def _pause(self, job: Job, context: CallContext, pause: ChildWaits | Waiting) -> None:
        job.working = None
        if isinstance(pause, ChildWaits):
            job.has_child = True
            return
        run, call = self._run, job.call
        if not run.journal.on:
            kind = "an approval" if pause.kind == "approval" else "a result from outside"
            self._end(job, failed(call, f"cannot wait for {kind}: the chat has no store"), context)
            return
        job.waits = True
        wait = open_wait(run, call, context.key, pause)
        operation = Operation(
            key=wait.key,
            scope=scope_of(run),
            run_id=run.id,
            kind="tool_call",
            state="waiting",
            step=run.state.step,
            index=job.place,
            name=call.name,
            call_id=call.id,
            remote=pause.kind == "result",
            waits_for=pause.kind,
        )
        await run.journal.append(
            "calls_changed", run.state.step, {"waiting": [job.place]}, waits=[wait], operations=[operation]
        )
        context.emit(CallWaiting, context.key, pause.kind, pause.arguments, pause.who, pause.note, pause.seconds)

    @property
    def waits(self) -> bool:
        """Whether some calls have no outcome because they wait."""
        return any(job.outcome is None for job in self._jobs)

    def open_keys(self) -> tuple[str, ...]:
        """The keys of the calls that wait for an answer from outside; those of sub-agents are in their own runs."""
        return tuple(self._run.call_key(job.place) for job in self._jobs if job.waits)

    def may_go_on(self, waits: dict[str, Wait]) -> bool:
        """Whether a call that waits has been answered by now."""
        answers = [waits.get(key) for key in self.open_keys()]
        return any(wait is not None and wait.resolution is not None for wait in answers)

    def unrecorded(self) -> dict[int, Outcome]:
        """The outcomes that no entry of the journal has yet."""
        return {job.place: job.outcome for job in self._jobs if job.outcome is not None and not job.recorded}

    # -- ending --------------------------------------------------------------------------------------------------

    def outcomes(self) -> list[Outcome]:
        """One outcome for each call; a call that was stopped has one that says so."""
        return [job.outcome or Outcome(job.call, INTERRUPTED, is_error=True) for job in self._jobs]

    def note_stopped(self) -> None:
        """Say in the tree's receipt what became of the calls that were at work."""
        run = self._run
        for job in self._jobs:
            if (tool := job.working) is None:
                continue
            call = job.call
            work = StoppedWork(agent_path=run.path, what="tool", name=call.name, call_id=call.id, effect=tool.effect)
            if not tool.interruptible or (job.task is not None and not job.task.done()):
                run.tree.note_stopped("not_stopped", work)
            else:
                run.tree.note_stopped("stopped" if tool.effect == "read" else "unknown", work)

    def _expire(self, job: Job, context: CallContext) -> None:
        assert job.task is not None
        job.expired = True
        job.task.cancel()
        self._run.deadlines.add(job, self._run.tree.patience, partial(self._leave, job, context))

    def _leave(self, job: Job, context: CallContext) -> None:
        """A tool that takes no notice of its cancellation is left behind; the run goes on without it."""
        assert job.task is not None
        if job.task.done():
            return
        job.left = True
        outcome = failed(job.call, _overdue(job))
        outcome.progress = context.end_progress()
        self._end(job, outcome, context)
        self._run.mailbox.leave(job.task)
        if self._gate is not None:
            self._gate.release()  # those behind it must not wait for it either

    def _why_cancelled(self, job: Job) -> str | None:
        """What the model is told of a cancelled call; None if the run itself is being cancelled."""
        task = asyncio.current_task()
        assert task is not None
        if job.expired and task.uncancel() == 0:
            return _overdue(job)
        return None if task.cancelling() else "the tool was cancelled from within"


def _overdue(job: Job) -> str:
    return f"no result within the time limit of {job.tool.timeout if job.tool else 0:g} s"
