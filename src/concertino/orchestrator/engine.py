"""`ToolOrchestrator`: the loop. Streaming, resume and sub-agents use the same one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

from ..errors import (
    ConfigurationError,
    LimitError,
    RunEndedError,
    RunError,
    RunStateError,
    StorageError,
    UnreadMessagesError,
)
from ..events import RunEnded, RunEvent, RunResult, RunStarted, RunStatus
from ..ids import new_run_id
from ..number_checks import check_amount, check_whole
from ..tools.registry import ToolRegistry
from .agent import AgentConfig
from .chat import Chat
from .event_stream import EventRecorder, EventStream, Observer
from .hooks import Hooks, hooks_of, load_tools, within_patience
from .journal.entries import UsageBooked
from .journal.lease import LEASE, STOP_DEADLINE, Claimed
from .journal.replay import Replay
from .lifecycle.input import first_message, show_admitted
from .lifecycle.open import apply_policy, begin, build_messages, open_run
from .lifecycle.result import concluded, keep_conversation, open_waits, result_of, typed_output
from .lifecycle.resume import resume
from .lifecycle.seal import close_open_turn, seal_below
from .meter import interrupted
from .model_call.request import TurnRequests
from .model_call.summarize import PATIENCE
from .next_step import next_step
from .outcome import CONTINUE, Continue, Fail, Finish, Limited, StepOutcome, Suspend
from .plain import load_state
from .recorder import record_end
from .resources import Resources
from .run import RunContext, RunSession, RunWork, no_work
from .sub_agents import spawn
from .tool_calls.context import Parent
from .tracing import traced
from .turn import TurnRunner
from .validation import check_run

log = logging.getLogger("concertino")

_DEFAULT = Resources()
"""The resources of runs that are given none: no store, the default limits."""


class ToolOrchestrator:
    """A run of an agent: `await run()`, or `async for event in stream()`, once.

    *registry* has the agent's tools; the default is the agent's own `tools`. *resources* are the store and everything
    else that runs share. *tool_call_limit* replaces the agent's own limit. *run_id* is the id of the run; the default
    is a new one. *observers* see every event.

    With *resume*, the run *run_id* continues from its journal in the store, at the point where it stopped. *lease* is
    the number of seconds after which another process may claim the run if this process no longer renews its claim.

    Raises `ConfigurationError` if an argument has the wrong type or the message is empty.
    """

    claimed: Claimed | None = None
    """The tree of a run to resume, if the caller has claimed it."""

    _left_open = False
    """Whether the run has ended here, but not in its journal."""

    def __init__(  # noqa: PLR0913 - most are optional
        self,
        chat: Chat,
        config: AgentConfig[Any],
        registry: ToolRegistry | None = None,
        *,
        resources: Resources | None = None,
        tool_call_limit: int | None = None,
        run_id: str | None = None,
        observers: Sequence[Observer] = (),
        resume: bool = False,
        lease: float = LEASE,
        parent: Parent | None = None,
    ) -> None:
        check_whole("ToolOrchestrator", "tool_call_limit", tool_call_limit, 0, optional=True)
        check_amount("ToolOrchestrator", "lease", lease, "seconds above 0")
        self._resources = resources or _DEFAULT
        self.chat = chat
        self._config = config
        self._resume = resume
        self._registry = check_run(
            chat, config, registry, self._resources, observers, resume=self._resume, run_id=run_id
        )
        self._tool_call_limit = tool_call_limit
        self._observers = tuple(observers)
        self._lease = lease
        self._parent = parent
        self.run_id = run_id or (parent.child_id() if parent else new_run_id())
        self._run: RunSession | None = None
        self._requests: TurnRequests | None = None
        self._task: asyncio.Task[Any] | None = None
        self._result: RunResult | None = None
        self._cause: Exception | None = None
        self._opened = False
        self._stopped = False
        self._prepares, self._takes_turns = False, True
        self._reached: LimitError | None = None  # interrupted the run, and its agent has not decided what follows

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._config.name

    @property
    def refused(self) -> Exception | None:
        """The error that kept the run from starting; None if it started."""
        return None if self._opened else self._cause

    @property
    def result(self) -> RunResult | None:
        """The result of the run however it ended; None before its end."""
        return self._result

    async def run(self) -> RunResult:
        """Run to the end, or until only waits are left (status `suspended`), and return the result.

        Raises `RunError`, with the result so far, if the run fails, and the errors of `stream`.
        """
        caller = asyncio.current_task()
        assert caller is not None
        cancelled_before = caller.cancelling()
        run = self._open()
        if self._observers:
            run.show(EventStream(self._observers, run.tree.policies, consumed=False))
        self._task = asyncio.create_task(self._drive(run))
        try:
            await self._task
        finally:
            self._ensure_result(run)
        if caller.cancelling() > cancelled_before:
            raise asyncio.CancelledError
        assert self._result is not None
        if self._result.status == "failed":
            raise RunError(self._result.error or "the run failed", self._result) from self._cause
        return self._result

    async def record(self, recorder: EventRecorder) -> None:
        """Run with all events to *recorder*; then `result` is set. Raises as `stream`."""
        run = self._open()
        run.show(EventStream(self._observers, run.tree.policies, recorder=recorder), recorder)
        self._task = asyncio.create_task(self._drive(run))
        try:
            await self._task
        finally:
            self._ensure_result(run)

    async def stream(self) -> AsyncGenerator[RunEvent, None]:
        """Yield the run's events as they happen. The last one is `RunEnded`, also if the run fails.

        Closing the generator or cancelling its consumer cancels the run, and the work so far is recorded. Use a
        `Runtime` to keep a run independent of its consumers. Raises `RunStateError` or `StorageError` if the run cannot
        start or be resumed.
        """
        run = self._open()
        run.show(stream := EventStream(self._observers, run.tree.policies))
        self._task = task = asyncio.create_task(self._drive(run))
        task.add_done_callback(stream.wake)
        try:
            while events := await stream.take(task):
                for event in events:
                    yield event
        finally:
            if not task.done():
                stream.leave()
                task.cancel()
                await asyncio.wait([task])
                self._ensure_result(run)
        await task  # raises why the run could not start

    def stop(self, deadline: float = STOP_DEADLINE) -> None:
        """Stop the run and its sub-agents within *deadline* seconds; call this in its event loop."""
        self._cancel(deadline, parked=False)

    def park(self) -> None:
        """Leave the run as its journal records it, so that any process can resume it. Without a store, stop the run."""
        self._cancel(STOP_DEADLINE, parked=self._resources.store is not None)

    def steer(self, message: str) -> None:
        """Add a user's message before the next step of a run without a store; with one, use `Runtime.steer`.

        Raises `RunStateError` if the run has not started, and `RunEndedError` if it has ended.
        """
        if self._run is None:
            raise RunStateError("steer: the run has not started; put the message into its Chat")
        if self._result is not None:
            raise RunEndedError(f"run {self.run_id!r} has ended: it takes no more messages")
        self._run.steers.append(message)

    def _cancel(self, deadline: float, *, parked: bool) -> None:
        if self._run is None or self._task is None or self._task.done():
            return
        tree = self._run.tree
        tree.patience, tree.parked = deadline, tree.parked or parked
        self._cancel_task()

    def _cancel_task(self) -> None:
        """Cancel the task once: a second time would cut the run's ending short. A run with a result is ending."""
        if not self._stopped and self._task is not None:
            self._stopped = True
            if self._result is None:
                self._task.cancel()

    def _ensure_result(self, run: RunSession) -> None:
        """Set the result of a run that was cancelled before its task began."""
        if self._result is None and self._cause is None and self._task is not None and self._task.cancelled():
            self._result = result_of(run, "cancelled", "the run was cancelled")

    def _open(self) -> RunSession:
        if self._run is not None:
            raise ConfigurationError("this ToolOrchestrator has run already; create one per run")
        if self._observers and not self._resume and not self.chat.traceparent:
            self.chat = traced(self.chat, self._observers, self._config.name)
        agent = (self._config, self._registry, self.run_id)
        limit, parent, lease = self._tool_call_limit, self._parent, self._lease
        self._run = open_run(self.chat, self._resources, *agent, tool_call_limit=limit, parent=parent, lease=lease)
        return self._run

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _drive(self, run: RunSession) -> None:  # noqa: C901, PLR0912, PLR0915 - one loop, all its ends
        """Prepare, take turns while the agent continues, and conclude. However it ends, `result` is set."""
        hooks = hooks_of(self._config)
        task = asyncio.current_task()
        assert task is not None
        if self._parent is not None:
            run.tree.add_task(run.id, task)
        run.meter.open_runs += 1
        try:
            turns, outcome = await self._prepare(run, hooks)
            while self._takes_turns:  # again if a message of the user comes before the end is recorded
                while self._takes_turns:
                    try:
                        if self._prepares:
                            self._prepares = False
                            for message in await within_patience(run, "prepare", hooks.prepare(run.context)):
                                run.add(message)
                        if self._reached is not None:
                            reached, self._reached = self._reached, None
                            outcome = await interrupted(run, hooks, reached)
                        while run.opened is not None or isinstance(
                            outcome := await next_step(run, hooks, outcome), Continue
                        ):
                            if run.background is not None and run.opened is None:
                                await run.background.before_step()
                            outcome = await turns.run()
                        if run.background is not None:
                            outcome = await run.background.settled(outcome)
                        self._takes_turns = isinstance(outcome, Continue)
                    except LimitError as error:  # it does not end the run: the agent decides
                        self._reached = error
                    except asyncio.CancelledError:
                        if self._reached is None or self._stopped or task.uncancel():
                            raise
                self._takes_turns = not await self._conclude(run, hooks, outcome)
        except BaseException as raised:
            if not await self._broke_off(run, raised):
                raise
        finally:
            run.meter.end_run(run.id)
            if self._parent is None:
                run.tree.on_stop = None
                run.meter.stop()
            else:
                run.tree.remove_task(task)
            # The last references back to the engine: nothing waits for the garbage collector.
            run.work, run.background = no_work, None
            run.context._work = no_work
        assert self._result is not None
        if run.context.own_progress is not None:
            run.context.own_progress.end()
        if self._left_open and run.recorder is not None:
            run.recorder.leave()
        run.emit(RunEnded, self._result)
        if run.stream is not None and self._parent is None:
            run.stream.close()  # abandoned work may still emit events

    async def _prepare(self, run: RunSession, hooks: Hooks) -> tuple[TurnRunner, StepOutcome]:
        """Start or resume the run, and give it its state and first messages; or how it ends without a step."""
        outcome: StepOutcome = CONTINUE
        found = await self._start(run, hooks)
        self._opened = True
        if run.recorder is not None:
            run.recorder.open(run.tree, run.scope)
        call = self._parent.call_id if self._parent else None
        chat, config = run.chat, self._config
        ids = (chat.conversation_id, chat.traceparent)
        run.emit(RunStarted, config.name, chat.message, call, self._resume, config.is_workflow, *ids)
        if run.repairs:
            run.notify("history_repaired", run.repairs)
        context = run.context
        if hooks.load_tools.own:
            await load_tools(run, hooks)
        if hooks.initialize_agent_state.own:
            context.agent_state = await hooks.initialize_agent_state(context)
            run.has_state = context.agent_state is not None
        if found is not None and found.stage != "started":
            context.agent_state = load_state(context.agent_state, found.agent_state)
            outcome = found.outcome
            if hooks.review_input.own:
                show_admitted(run)
            if found.background:
                run.work().restore_background(found.background)
        else:
            text = run.chat.message
            if hooks.review_input.own:
                text, outcome = await first_message(run, hooks)
            await build_messages(run, hooks, text, None if found is None else found.started.skipped)
            self._prepares = hooks.prepare.own and outcome is CONTINUE
        self._requests = TurnRequests(run, hooks)
        return TurnRunner(run, hooks, self._requests, _SPAWN), outcome

    async def _start(self, run: RunSession, hooks: Hooks) -> Replay | None:
        """Record the start of the run, or return the replay of the run that is resumed."""
        found = made = None

        def work() -> RunWork:
            nonlocal made
            from .work import OutsideWork  # noqa: PLC0415 - most runs do none

            made = made or OutsideWork(run, hooks, _SPAWN)
            return made

        run.work = work
        run.context = RunContext(run)
        if self._parent is None:
            run.tree.on_stop = self._stop_requested
        above = run.chat.caller or (self._parent is not None and self._parent.run.redactor is not None)
        if hooks.get_data_policy.own or above:
            await apply_policy(run, hooks)
            run.context = RunContext(run)  # the first one has the chat as it was
        here = run.id in run.tree.policies
        run.tree.policies[run.id] = run.journal.policy
        if self._resume:
            claimed, self.claimed = self.claimed, None  # the journal may be large
            found = await resume(run, self._parent, claimed, here=here)
            # The first context has the state from before the journal was read.
            run.context = RunContext(run)
        elif run.journal.on:
            await begin(run, self._parent)
        if self._parent is None:
            run.meter.start(self._time_is_over)
        return found

    async def _conclude(self, run: RunSession, hooks: Hooks, outcome: StepOutcome) -> bool:
        """Set the answer and end the run. Return False if a message to the run came first; then nothing has ended."""
        if isinstance(outcome, Suspend):
            return await self._end(run, "suspended")
        replaced = isinstance(outcome, Finish) and outcome.text not in (None, run.state.text)
        outcome = await concluded(run, hooks, outcome)
        match outcome:
            case Fail():
                return await self._end(run, "failed", run.clean(outcome.error))
            case Limited():
                return await self._end(run, "limited", outcome.why)
            case Finish() | Continue():
                output = error = None
                if run.output is not None:
                    output, error = await typed_output(run, run.output, replaced=replaced)
                return await self._end(run, "completed" if error is None else "failed", error, output)
            case _:
                assert_never(outcome)

    # -- the end -------------------------------------------------------------------------------------------------

    def _stop_requested(self) -> None:
        """Cancel the run's task after an external stop request or a lost lease, unless called from that task."""
        if asyncio.current_task() is not self._task:
            self._cancel_task()

    def _time_is_over(self) -> None:
        """Interrupt the run, so that its agent can end it."""
        if self._task is not None and self._run is not None and self._takes_turns:
            why = f"the limit of {self._run.limits.seconds:g} seconds of work is reached"
            self._reached = LimitError(why, "seconds")
            self._task.cancel()

    async def _end(self, run: RunSession, status: RunStatus, error: str | None = None, output: Any = None) -> bool:
        """End a run that has completed or failed by its own decision, or suspend it.

        Return False if the run has accepted a message that it has not read: it has not ended then.
        """
        assert self._requests is not None
        if self._requests.summaries is not None:
            await self._requests.summaries.settle(PATIENCE)
        if run.unread is not None:  # the result has all messages and usage
            await run.unread.read()
        waiting = await open_waits(run) if status == "suspended" else ()
        if run.steers and status != "suspended":
            return False
        self._result = result_of(run, status, error, waiting, output)
        if status != "suspended":
            if self._parent is None and run.tree.runs_below:
                await seal_below(run.tree, "cancelled", "the run above it has ended")
            try:
                await record_end(run, status, error, read=run.journal.processed)
            except UnreadMessagesError:
                run.ended, self._result = False, None
                if self._stopped:  # meanwhile
                    raise asyncio.CancelledError from None
                return False
        if run.chat.conversation_id or run.chat.history:  # otherwise no further run is likely
            keep_conversation(run)
        if self._parent is None:
            await run.tree.release()
        return True

    async def _broke_off(self, run: RunSession, raised: BaseException) -> bool:
        """End a run that an exception has ended. Return False if *raised* must be raised again."""
        if run.background is not None:
            with suppress(asyncio.CancelledError):  # a second cancellation ends this wait only
                await run.background.stop()
        if isinstance(raised, Exception):
            if not self._opened and (self._resume or isinstance(raised, RunStateError)):
                self._cause = raised
                return False  # there is no run to end
            self._cause = raised
            await self._end_badly(run, "failed", f"{type(raised).__name__}: {raised}")
            return True
        lost = run.tree.lost
        if lost is not None and self._parent is None and self._task is not None:
            self._task.uncancel()
            self._cause = lost
            self._result = result_of(run, "failed", f"{type(lost).__name__}: {lost}")
            self._left_open = True
            return True  # another process continues it, and nothing more may be done here
        if self._resume and self._parent is None and not self._opened:
            return False  # it was not resumed, and stays as its journal records it
        await self._end_badly(run, "cancelled", "the run was cancelled")
        stopped = self._stopped and not run.tree.parked and isinstance(raised, asyncio.CancelledError)
        return stopped and self._parent is None

    async def _end_badly(self, run: RunSession, status: RunStatus, error: str) -> None:
        """End a run as failed or cancelled. A store that fails now must not hide the first failure.

        If the store hangs, a cancelled caller does not wait for it; the write continues in the background. A run whose
        store failed is not ended: it can be resumed when the store works again. Nor is a parked run, or a run
        that another process has claimed.
        """
        if self._requests is not None and self._requests.summaries is not None:
            await self._requests.summaries.stop()
        error = run.clean(error)
        if run.unread is not None and not run.tree.parked and run.tree.lost is None:
            await run.unread.read_within(run.tree.patience)
        before, self._result = self._result, result_of(run, status, error)
        stays_open = isinstance(self._cause, StorageError) or run.tree.parked or run.orphaned
        self._left_open = True

        async def end() -> None:
            try:
                await run.tree.settle(run.id)
                if await run.journal.has_ended():
                    self._result, self._left_open = before, False
                elif not stays_open:
                    if self._resume:
                        await close_open_turn(run, error)
                        self._result = result_of(run, status, error)
                    await record_end(run, status, error)
                    self._left_open = False
                elif run.tree.lost is None and not run.orphaned:
                    await run.journal.append(UsageBooked(), run.state.step)
            except Exception as failure:  # noqa: BLE001 - the run's own failure is the one to report
                log.error("run %s: its end could not be recorded: %s", run.id, type(failure).__name__)  # noqa: TRY400 - a traceback may show what the policy forbids
            finally:
                if self._parent is None:
                    await run.tree.release()

        task = asyncio.create_task(end())
        run.tree.add_task(run.id, task)
        await asyncio.wait([task], timeout=run.tree.patience if status == "cancelled" else None)

    async def run_below(self) -> RunResult:
        """Run as a sub-agent, in the task of the call that spawned it."""
        run = self._open()
        self._task = asyncio.current_task()
        await self._drive(run)
        assert self._result is not None
        return self._result


_SPAWN = partial(spawn, ToolOrchestrator)
