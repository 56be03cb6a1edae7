"""`ToolOrchestrator`: the loop. There is no other one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, assert_never

from ..errors import ConfigurationError, RunError, RunStateError, StorageError, ToolError
from ..events import RunEnded, RunEvent, RunResult, RunStarted, RunStatus, Steered
from ..ids import new_run_id
from ..messages import AssistantMessage, Text, UserMessage
from ..tools.registry import ToolRegistry
from .agent import AgentConfig
from .chat import Chat
from .hooks import Hooks
from .journal.data_policy import NOTHING, shown
from .journal.lease import LEASE, STOP_DEADLINE
from .journal.replay import OpenTurn, Record
from .lifecycle import prompt as prompting
from .lifecycle.open import Parent, build_messages, open_run, run_start, that_fits, what_is_given
from .lifecycle.recorder import note_end
from .lifecycle.repair import closing
from .lifecycle.result import gathered, open_waits
from .lifecycle.resume import begin, child_result, take_up
from .lifecycle.seal import seal_below
from .model_call.side_question import asker, meanwhile
from .model_call.summarize import PATIENCE, Summaries
from .outcome import Fail, Finish, GoOn, StepOutcome, Suspend
from .plain import load_state
from .run import Run
from .turn import Step
from .validation import check_agent, check_chat, check_observers, registry_of

log = logging.getLogger("concertino")

Observer = Callable[[RunEvent], None]
"""Sees every event as the data policy lets it, and decides nothing. One that raises is logged and harms nobody."""
NO_ROOM = "The budget is used up, and nothing was found out before."


class ToolOrchestrator:
    """Runs one agent once: `await run()`, or `async for event in stream()`.

    *registry* holds the agent's tools; without one, those of the agent itself. *tool_call_limit* replaces the
    agent's own limit. *run_id* names the run; without it a fresh id is made. *observers* see every event.

    With *resume*, the run *run_id* is taken up from its journal in the chat's store, at the very step where it was
    left: then the chat gives the means (model, store, tools' object), and the journal the rest. *lease* is how many
    seconds this process may be silent before another one may take the run over.

    Raises `ConfigurationError` for arguments of the wrong kind or an empty message.
    """

    def __init__(  # noqa: PLR0913 - most are optional
        self,
        chat: Chat,
        config: AgentConfig[Any],
        registry: ToolRegistry | None = None,
        *,
        tool_call_limit: int | None = None,
        run_id: str | None = None,
        observers: Sequence[Observer] = (),
        resume: bool = False,
        lease: float = LEASE,
        parent: Parent | None = None,
    ) -> None:
        check_agent(config)
        check_chat(chat, resume=resume, run_id=run_id)
        check_observers(observers)
        self._chat = chat
        self._config = config
        self._registry = registry_of(config, registry)
        self._tool_call_limit = tool_call_limit
        self._observers = tuple(observers)
        self._resume = resume
        self._lease = lease
        self._parent = parent
        self.run_id = run_id or (parent.child_id() if parent else new_run_id())
        self._run: Run[Any] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._result: RunResult | None = None
        self._cause: Exception | None = None
        self._opened = False

    @property
    def refused(self) -> Exception | None:
        """Why the run could not even begin, or be put on record; None if it could."""
        return None if self._opened else self._cause

    @property
    def result(self) -> RunResult | None:
        """How the run ended, however it did; None before that."""
        return self._result

    async def run(self) -> RunResult:
        """Run to the end, or until only waits are left (status `suspended`).

        Raises `RunError`, with the result so far, if the run fails, and what `stream` raises.
        """
        async for _ in self.stream():
            pass
        assert self._result is not None
        if self._result.status == "failed":
            raise RunError(self._result.error or "the run failed", self._result) from self._cause
        return self._result

    def stream(self) -> AsyncGenerator[RunEvent, None]:
        """The run's events, as they happen; the last is `RunEnded`, also when the run fails.

        Closing the generator or cancelling its consumer cancels the run: what was gathered is stored. To keep a run
        apart from those who watch it, start it with a `Runtime`. A run that cannot be begun or taken up raises
        `RunStateError` or `StorageError` here.
        """
        if self._run is not None:
            raise ConfigurationError("this ToolOrchestrator has run already; make a new one for each run")
        self._run = open_run(
            self._chat, self._config, self._registry, self.run_id, self._tool_call_limit, self._parent, self._lease
        )
        events = self._events(self._run)
        return self._observed(events, self._run) if self._observers else events

    def stop(self, deadline: float = STOP_DEADLINE) -> None:
        """Stop the run and all below it: what is going on is cancelled, and gets *deadline* seconds to end.

        The run ends as `cancelled`; its result has a receipt. To be called in the run's own event loop.
        """
        self._cancel(deadline, parked=False)

    def park(self) -> None:
        """Leave the run as its journal has it, to be taken up later, by whomever: for a process that must end.

        Without a store this is `stop`.
        """
        self._cancel(STOP_DEADLINE, parked=self._chat.store is not None)

    def steer(self, message: str) -> None:
        """Put *message* of the user into the running agent: it arrives before the next step.

        For a run in this process, without a store; with one, use `Runtime.steer`, which loses nothing.
        """
        if self._run is not None:
            self._run.steers.append(message)

    def _cancel(self, deadline: float, *, parked: bool) -> None:
        if self._run is None or self._task is None or self._result is not None:
            return
        tree = self._run.tree
        tree.patience, tree.parked = deadline, tree.parked or parked
        self._task.cancel()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _events(self, run: Run[Any]) -> AsyncGenerator[RunEvent, None]:
        hooks = Hooks(self._config)
        self._task = task = asyncio.current_task()
        assert task is not None
        run.tree.going_on_in(run.id, task)
        outcome: StepOutcome = GoOn()
        try:
            record = await self._open(run, hooks)
            self._opened = True
            yield self._started(run)
            async with aclosing(self._begin(run, hooks, record)) as events:
                async for event in events:
                    yield event
            while run.opened is not None or await self._goes_on(run, hooks, outcome):
                for event in run.mailbox.drain():
                    yield event
                step = Step(run, hooks, self._spawn)
                async with aclosing(step.events()) as events:
                    async for event in events:
                        yield event
                outcome = step.outcome
            async with aclosing(self._conclude(run, hooks, outcome)) as events:
                async for event in events:
                    yield event
            await self._end(run, outcome)
        except BaseException as raised:
            if not await self._broke_off(run, raised):
                raise
        finally:
            run.tree.done_in(task)
        for event in run.mailbox.drain():
            yield event
        assert self._result is not None
        yield RunEnded(run.id, run.path, run.index.value, self._result)

    def _started(self, run: Run[Any]) -> RunStarted:
        call = self._parent.call_id if self._parent else None
        return RunStarted(run.id, run.path, run.index.value, self._config.name, run.chat.message, call, self._resume)

    async def _open(self, run: Run[Any], hooks: Hooks) -> Record | None:
        """The run's place in the store: begun there, or taken up from there. Nothing has happened before that."""
        run.journal.policy = run.tree.policies[run.id] = await hooks.ask("get_data_policy")
        run.agent_state = None
        if self._parent is None:
            run.tree.on_stop = self._stop_asked
        run.ask = asker(run, hooks)
        run.summaries = Summaries(run, hooks)
        if self._resume:
            return await take_up(run, self._parent)
        if run.journal.on:
            body, content = what_is_given(run)
            await begin(run, run_start(run, self._config, self._parent), body, content, self._parent)
        return None

    async def _begin(self, run: Run[Any], hooks: Hooks, record: Record | None) -> AsyncGenerator[RunEvent, None]:
        """State, the first messages, and what the agent looks up in advance; or the state that the journal has."""
        run.agent_state = await hooks.ask("initialize_agent_state", run)
        if record is not None and record.stage != "begun":
            run.agent_state = load_state(run.agent_state, record.agent_state)
            return
        build_messages(run, self._config, record)
        run.state.tool_choice = prompting.first_tool_choice(run.chat, run.registry)
        if hooks.has_own("prepare"):
            async with aclosing(meanwhile(run, "prepare", hooks.ask("prepare", run))) as events:
                async for event in events:
                    yield event
            for message in run.hook_value or ():
                run.add(message)
        for event in run.mailbox.drain():
            yield event

    async def _goes_on(self, run: Run[Any], hooks: Hooks, last: StepOutcome) -> bool:
        """Whether there is another step; what the last one and the hook want before it is put in place.

        One that was about to end well takes another step if somebody has steered it meanwhile.
        """
        if not isinstance(last, GoOn | Finish):
            return False
        steers = await self._steers(run)
        if isinstance(last, Finish):
            if not steers:
                return False
            self._answer(run, run.state.text if last.text is None else last.text)
            last = GoOn()
        for text in steers:
            run.add(UserMessage(that_fits(run, text)))
            run.state.has_tool_calls = True
            run.mailbox.put(Steered(run.id, run.path, run.index.value, text))
        decision: bool | GoOn = await hooks.ask("should_continue_loop", run)
        run.prepare_next(last)
        if isinstance(decision, GoOn):
            run.prepare_next(decision)
            return True
        return decision

    async def _steers(self, run: Run[Any]) -> list[str]:
        """Messages that were sent to the running agent since it was asked last."""
        steers, run.steers = run.steers, []
        journal = run.journal
        if journal.commands > journal.seen and run.tree.store is not None:
            for command in await run.tree.store.commands(run.id, after=journal.seen):
                journal.seen = command.number
                if command.kind == "steer":
                    steers.append(command.text)
        return steers

    async def _conclude(self, run: Run[Any], hooks: Hooks, outcome: StepOutcome) -> AsyncGenerator[RunEvent, None]:
        match outcome:
            case Finish(text):
                self._answer(run, run.state.text if text is None else text)
            case GoOn() | Fail():
                pass
            case Suspend():
                return
            case _:
                assert_never(outcome)
        if hooks.has_own("conclude"):
            async with aclosing(meanwhile(run, "conclude", hooks.ask("conclude", run, run.state.text))) as events:
                async for event in events:
                    yield event
            if run.hook_value is not None:
                self._answer(run, run.hook_value)
        if run.state.budget_reached and not run.state.text:
            self._answer(run, NO_ROOM)

    def _answer(self, run: Run[Any], text: str) -> None:
        """The answer is what the conversation ends with, also where the model did not write it."""
        if text != run.state.text:
            run.state.text = text
            run.add(AssistantMessage((Text(text),)))

    # -- closing -------------------------------------------------------------------------------------------------

    def _stop_asked(self) -> None:
        """Somebody outside wants the run stopped, or has it now. Where its own task has just learned that, it knows."""
        if self._task is not None and self._result is None and asyncio.current_task() is not self._task:
            self._task.cancel()

    async def _end(self, run: Run[Any], outcome: StepOutcome) -> None:
        """The run has come to its own end, or only waits are left."""
        status: RunStatus = "completed"
        error = None
        match outcome:
            case Fail():
                status, error = "failed", outcome.error
            case Suspend():
                status = "suspended"
        await run.summaries.settle(PATIENCE)
        waiting = await open_waits(run) if status == "suspended" else ()
        self._result = gathered(run, status, error, waiting)
        if status != "suspended":
            if self._resume and self._parent is None:
                await seal_below(run.tree, "cancelled", "the run that it belonged to has ended")
            await note_end(run, status, error)
        if self._parent is None:
            await run.tree.let_go()

    async def _broke_off(self, run: Run[Any], raised: BaseException) -> bool:
        """Something ended the run before its end. False: *raised* is to be raised on."""
        if isinstance(raised, Exception):
            if not self._opened and (self._resume or isinstance(raised, RunStateError)):
                return False  # there is no run to end
            self._cause = raised
            await self._end_badly(run, "failed", f"{type(raised).__name__}: {raised}")
            return True
        lost = run.tree.lost
        if lost is not None and self._parent is None and self._task is not None:
            self._task.uncancel()
            self._cause = lost
            self._result = gathered(run, "failed", f"{type(lost).__name__}: {lost}")
            return True  # it goes on elsewhere, and nothing more is done for it here
        await self._end_badly(run, "cancelled", "the run was cancelled")
        return False

    async def _end_badly(self, run: Run[Any], status: RunStatus, error: str) -> None:
        """As `_end`, for a run that is failing already: a store that fails too must not hide why.

        One that hangs keeps nobody who has cancelled; it is left to store what was gathered in its own time. A run
        whose store failed is not ended there: it can be taken up when the store is well again. Nor is one that is
        parked, or that somebody else has taken over.
        """
        if hasattr(run, "summaries"):
            await run.summaries.stop()
        before, self._result = self._result, gathered(run, status, error)
        stays_open = isinstance(self._cause, StorageError) or run.tree.parked

        async def end() -> None:
            try:
                await run.tree.settle(run.id)
                if await run.journal.has_ended():
                    self._result = before
                elif not stays_open:
                    if self._resume:
                        await self._close(run, error)
                    await note_end(run, status, error)
                elif run.tree.lost is None:
                    await run.journal.append("usage_booked", run.state.step, {})
            except Exception as failure:  # noqa: BLE001 - the run's own failure is what is told
                log.error("run %s: what was gathered could not be stored: %s", run.id, type(failure).__name__)  # noqa: TRY400 - a traceback may show what the policy forbids
            finally:
                if self._parent is None:
                    await run.tree.let_go()

        task = asyncio.create_task(end())
        run.tree.going_on_in(run.id, task)
        await asyncio.wait([task], timeout=run.tree.patience if status == "cancelled" else None)

    async def _close(self, run: Run[Any], error: str) -> None:
        """What an earlier life of the run has left open, and this one has not come to, is closed with it."""
        if isinstance(run.opened, OpenTurn):
            for message in closing(run.tree, run.path, run.opened, run.added):
                run.add(message)
            self._result = gathered(run, self._result.status if self._result else "failed", error)
        if self._parent is None:
            await seal_below(run.tree, "cancelled", error)

    # -- sub-agents ----------------------------------------------------------------------------------------------

    async def _spawn(
        self,
        parent: Parent,
        agent: AgentConfig[Any],
        task: str,
        registry: ToolRegistry | None,
        tool_call_limit: int | None,
    ) -> RunResult:
        """Run a sub-agent for a call; its events, usage and tool calls go into this run, however it ends.

        Where the call is run again after a crash or a wait, its sub-agent is found: ended, or to be taken up.
        """
        run = parent.run
        if run.mailbox.closed:
            raise ToolError("the run that this sub-agent belongs to has ended")
        result, begun = await child_result(run, parent) if parent.again else (None, False)
        if result is None:
            chat = run.chat.for_child(task)
            child = ToolOrchestrator(
                chat, agent, registry, tool_call_limit=tool_call_limit, parent=parent, resume=begun
            )
            try:
                async with aclosing(child.stream()) as events:
                    async for event in events:
                        await run.mailbox.deliver(event)
            finally:
                result = child.result
                if result is not None:
                    run.count_calls(result.tool_calls)
        else:
            run.count_calls(result.tool_calls)
        assert result is not None
        if result.status not in ("completed", "suspended"):
            raise RunError(result.error or "the sub-agent failed", result)
        return result

    async def _observed(self, events: AsyncGenerator[RunEvent, None], run: Run[Any]) -> AsyncGenerator[RunEvent, None]:
        policies = run.tree.policies
        try:
            async for event in events:
                seen = shown(policies.get(event.run_id, NOTHING), event)
                for observe in self._observers:
                    if seen is None:
                        break
                    try:
                        observe(seen)
                    except Exception as error:  # noqa: BLE001 - an observer harms nobody
                        log.error("an observer failed on %s: %s", type(event).__name__, type(error).__name__)  # noqa: TRY400 - see above
                yield event
        finally:
            await events.aclose()
