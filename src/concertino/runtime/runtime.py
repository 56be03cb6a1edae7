"""`Runtime`: the entry point for products. Runs survive their consumers and their process."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, get_args

from ..errors import (
    ConfigurationError,
    ErasedError,
    RunClaimedError,
    RunEndedError,
    RunStateError,
    UnknownConversationError,
    UnknownRunError,
)
from ..events import RunEvent, RunResult, StopReceipt
from ..ids import new_conversation_id, new_run_id
from ..number_checks import check_amount
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.engine import ToolOrchestrator
from ..orchestrator.event_stream import Observer
from ..orchestrator.hooks import hooks_of
from ..orchestrator.journal.data_policy import DataPolicy, policy_of
from ..orchestrator.journal.lease import LEASE, STOP_DEADLINE, Claimed
from ..orchestrator.journal.patterns import redactor_of
from ..orchestrator.journal.replay import replay, requests, started_of
from ..orchestrator.lifecycle.fork import fork
from ..orchestrator.lifecycle.refusal import check_start
from ..orchestrator.lifecycle.result import replayed_result
from ..orchestrator.resources import Resources
from ..providers.base import Model, ModelRequest
from ..scope import AnyScope, Scope
from ..storage.base import Store
from ..storage.conversation_types import StoredConversation, StoredTurn
from ..storage.types import Claim, StoredJournal, StoredRun
from ..tools.registry import ToolRegistry
from ..usage import UsageRecord
from ..waits import Wait
from .answering import Answering
from .assigned_calls import AssignedCalls, caller_of
from .checks import check_number, check_text, chosen_run_id
from .conversation import Conversation
from .event_log import EventLog, Until
from .event_pieces import one_by_one
from .fleet import Fleet, Seat
from .known_agents import KnownAgents, Runnable
from .live_run import LiveRun, park_all
from .run_resources import ResourcesFunction, RunResources
from .schedules import Schedules
from .sealing import sealed, tell_stopped
from .title import write_title
from .tool_run import ToolRun, model_for_tool
from .turns import TurnStarter
from .watchdog import BACK_OFF, SWEEP, TRIES, Watchdog

_MOST_DONE = 100
"""Number of runs from which a start drops the runs that are done, for a runtime without its watchdog."""


class Runtime(Answering):
    """The entry point for products: starts runs, stores them, and resumes them.

        async with Runtime([SupportDesk()], Resources(models=Models(), store=store)) as runtime:
            run = await runtime.start(Chat("Where is my order?", model="anthropic"), "support_desk")
            async for number, event in run.events():
                ...

    This process starts and resumes the runs of *agents*. An agent has its own tools, or is given as a pair with a
    registry. The list may also contain tools with a target, which this process then runs for all processes. All runs
    share *resources*, or get theirs from a function of the run's owner and agent; it is called when a run starts, and
    whenever a process resumes it. *store* keeps the runs; the default is the store of *resources*, or memory.

    Inside `async with`, a watchdog checks the store every *sweep* seconds: it resumes runs whose process died and runs
    that were answered, and expires waits. A run that is resumed without progress is resumed again after *back_off*
    seconds, doubled each time. After *tries* times it becomes a dead letter, because it may be what kills its process;
    `retry` resumes it. The end of the block parks the runs in progress. After `join`, several processes share the work.

    Methods that name a run or a wait take the caller's scope as their first argument. An id out of its reach raises the
    same `UnknownRunError` or `UnknownWaitError` as an unknown id. These methods raise `RunStateError` if the state does
    not allow the operation. Every method may raise `StorageError`.
    """

    def __init__(
        self,
        agents: Sequence[Runnable] = (),
        resources: Resources | ResourcesFunction | None = None,
        *,
        store: Store | None = None,
        observers: Sequence[Observer] = (),
        sweep: float = SWEEP,
        lease: float = LEASE,
        tries: int = TRIES,
        back_off: float = BACK_OFF,
    ) -> None:
        check_amount("Runtime", "lease", lease, "seconds above 0")
        self._resources = RunResources(Resources() if resources is None else resources, store)
        self.store = self._resources.store
        self._agents = KnownAgents(agents)
        self.observers = tuple(observers)
        self._lease = lease
        self._live: dict[str, LiveRun] = {}
        self._log = EventLog(self.store)
        self.counts = self._log.counts
        self._most_live = _MOST_DONE
        self._watching: asyncio.Task[None] | None = None
        self._seat = Seat(self.store, self._agents.names, self._busy, lease)
        self._resources.wait_in(self._seat.starts)
        self._turns = TurnStarter(self.store, self, self._log, self._seat, lease)
        self.schedules = Schedules(self, self._seat)
        self._calls = AssignedCalls(self.store, self._seat, self._agents, self._start, self._wake, lease)
        parts = (self.store, self, (self.schedules.look, self._turns.look, self._calls.look), self._seat)
        self._watchdog = Watchdog(*parts, lease=lease, sweep=sweep, tries=tries, back_off=back_off)
        self._sweep = sweep

    async def __aenter__(self) -> Self:
        await self._seat.claim_targets()
        self._log.open()
        self._watching = self._watchdog.start()
        self._seat.take(self._watchdog.wake)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def join(self, fleet: Fleet) -> None:
        """Share the work on the store, before `async with`. Raises `ConfigurationError` if the agents do not fit."""
        self._seat.fleet = self._agents.checked(fleet)
        self._log.bell = self._log.conversations.bell = fleet.bell
        self._seat.journals = self._resources.join(fleet, self.counts)

    async def close(self, grace: float = 0.0) -> None:
        """Stop the watchdog, and park the runs that do not end within *grace* seconds for any process to resume."""
        self._seat.leave()
        if self._watching is not None:
            self._watchdog.stop()
            await asyncio.wait([self._watching])
            self._watching = None
        async with self._seat.held():
            await self._turns.close()
            parked = [run for run in self._live.values() if not run.done]
            await park_all(parked, grace)
        self._live.clear()
        for agent in {run.agent for run in parked}:
            self._seat.ring(agent)
        await self._calls.close()
        await self._seat.leave_targets()
        await self._log.close()
        await self._resources.close()

    # -- runs ----------------------------------------------------------------------------------------------------

    async def start(self, chat: Chat, agent: AgentConfig[Any] | str, *, run_id: str | None = None) -> LiveRun:
        """Start a run, and return it once it is recorded; from then on, it cannot be lost.

        *run_id* is the caller's own id for the run, such as that of an order: the same id cannot start a second run. A
        run of a tenant is stored under an id derived from it, `LiveRun.id`, so that no tenant finds out which ids
        another one has used. Raises `RunExistsError`, whose `run_id` is the stored id.
        """
        check_text(run_id="" if run_id is None else run_id)
        if run_id and isinstance(chat, Chat) and isinstance(chat.scope, Scope):
            run_id = chosen_run_id(chat.scope, run_id)
        return await self._start(chat, agent, run_id or new_run_id())

    async def _start(self, chat: Chat, agent: AgentConfig[Any] | str, run_id: str) -> LiveRun:
        return await self._run(chat, *self._agents.take(agent), run_id, resume=False)

    async def resume(self, scope: AnyScope, run_id: str) -> LiveRun:
        """Resume a run at the point where it stopped; a sub-agent's run is resumed with its root.

        If the watchdog of this process has been faster, its run is returned, which may have ended. Otherwise raises
        `RunClaimedError` while another process works on the run, `RunEndedError`, `ErasedError`.
        """
        done = [live for live in self._live.values() if live.done and not (live.unseen and live.has_ended)]
        stored = await self._stored(scope, run_id)
        try:
            live = await self._resume(stored.start.scope, stored.start.root_id)
        except (RunClaimedError, RunEndedError):
            await self._watchdog.settled(stored.start.root_id)
            if (found := self._live.get(stored.start.root_id)) is None or found in done:
                raise
            live = found
        live.unseen = False
        return live

    async def _resume_claimed(self, claim: Claim, since: float) -> LiveRun:
        """Resume a tree whose claim was requested at *since*. If that fails, the claim is released."""
        live = self._live.get(claim.root_id)
        if live is not None and not live.done:
            await self.store.release(claim)
            live.on_end(self._watchdog.wake)
            raise RunStateError("it is about to leave this process, and is resumed then")
        try:
            return await self._resume(claim.scope, claim.root_id, claim, since)
        except Exception:
            await self.store.release(claim)
            raise

    async def _resume(self, owner: Scope, root_id: str, claim: Claim | None = None, since: float = 0.0) -> LiveRun:
        if (live := self._live.get(root_id)) is not None and not live.done:
            return live
        journal = await self._journal(owner, root_id, from_snapshot=True)
        start, started = journal.run.start, started_of(journal)
        config, registry = self._agents.take_stored(start.agent, started.policy)
        caller, conversation_id = caller_of(start, started), start.conversation_id
        chat = Chat(model=started.model, scope=owner, caller=caller, conversation_id=conversation_id)
        claimed = None if claim is None else (claim, since, journal)
        return await self._run(chat, config, registry, root_id, resume=True, claimed=claimed)

    def live(self, scope: AnyScope, run_id: str) -> LiveRun | None:
        """Return the run if it is in progress in this process."""
        live = self._live.get(run_id)
        return live if live is not None and scope.reaches(live.scope) else None

    @property
    def agents(self) -> tuple[AgentConfig[Any], ...]:
        """The agents that this process can run."""
        return tuple([config for config, _ in self._agents.values()])

    def knows(self, agent: str) -> bool:
        """Return whether this process can run the agent with this name."""
        return agent in self._agents.names()

    def events(
        self, scope: AnyScope, run_id: str, after: int = 0, *, until: Until = "ended"
    ) -> AsyncGenerator[tuple[int, RunEvent], None]:
        """Yield a run's events after number *after* with their numbers, and follow the run in any process.

        The numbers are the same in every process. Events are yielded once they are stored, so a crash cannot revoke
        them; a `Voided` event names events that a crash has undone. A reader that was away gets complete answers
        instead of their pieces. The iteration ends with the run; with *until* `suspended`, also when the run waits.
        Raises `UnknownRunError`, and `RunStateError` for a sub-agent's run: the log of its root has its events.
        """
        return one_by_one(self.event_batches(scope, run_id, after, until=until))

    def event_batches(
        self, scope: AnyScope, run_id: str, after: int = 0, *, until: Until = "ended"
    ) -> AsyncGenerator[Sequence[tuple[int, RunEvent]], None]:
        """Yield the same as `events`, in lists of all pairs that are available: for a server with many readers."""
        if until not in get_args(Until):
            raise ConfigurationError(f"invalid until {until!r:.80}: choose from {', '.join(get_args(Until))}")
        check_number(after=after)
        return self._log.read(scope, run_id, after, until)

    async def result(self, scope: AnyScope, run_id: str) -> RunResult:
        """Return how a run ended, from its journal. Raises `RunStateError` if it has not ended, `ErasedError`."""
        result = await live.result() if (live := self.live(scope, run_id)) is not None else None
        journal = await self._journal(scope, run_id)
        end = journal.run.end
        if result is not None and (end is None or end.status == result.status):
            return result  # otherwise another process has continued it
        if end is None:
            raise RunStateError(f"run {run_id} has not ended: it is {journal.run.state}")
        start = journal.run.start
        agent, _ = self._agents.get(start.agent, (None, None))
        output_type = None if agent is None or start.run_id != start.root_id else agent.output_type
        return await replayed_result(replay(journal), list(await self.store.usage(scope, start.root_id)), output_type)

    async def steer(self, scope: AnyScope, run_id: str, message: str) -> None:
        """Add a user's message to a run in any process. The agent sees it once, before its next step."""
        check_text(message=message)
        if not message.strip():
            raise ConfigurationError("steer: the message is empty")
        await self.store.send(scope, run_id, "steer", await self._clean(scope, run_id, message))

    async def stop(self, scope: AnyScope, run_id: str, deadline: float = STOP_DEADLINE) -> StopReceipt:
        """Stop a run and its sub-agents, in any process, and return the receipt.

        The run ends as `cancelled`: partial text is kept, usage is settled, and every call has a result. The receipt
        names work that did not end within *deadline* seconds. Raises `RunEndedError`; `RunStateError` for a sub-agent's
        run, or if the process of the run does not stop it in time.
        """
        stored = await self._stored(scope, run_id)
        if stored.start.root_id != run_id:
            raise RunStateError(f"run {run_id} is a sub-agent's: stop its root, {stored.start.root_id}")
        waits = await self.store.waits(scope, root_id=run_id, open=True)
        try:
            return await self._stop(scope, run_id, deadline)
        finally:
            tell_stopped(self.agents, stored.start.scope, waits)

    async def _stop(self, scope: AnyScope, run_id: str, deadline: float) -> StopReceipt:
        if (live := self.live(scope, run_id)) is not None and not live.done:
            result = await live.stop(deadline)
            if result.status == "cancelled":
                return result.receipt or StopReceipt()
        await self.store.send(scope, run_id, "stop")  # also if the run was suspended, or ended, just before
        await self._seat.wake_owners(run_id)
        receipt = await sealed(self._seat.journals, scope, run_id, deadline + 2 * self._sweep, min(0.05, self._sweep))
        if receipt is None:
            raise RunStateError(f"run {run_id} has not stopped within {deadline:g} s: its process does not answer")
        return receipt

    async def retry(self, scope: AnyScope, run_id: str) -> None:
        """Let the watchdog of any process resume a dead letter.

        Raises `RunStateError` if the run is not a dead letter.
        """
        stored = await self._stored(scope, run_id)
        await self.store.retry(scope, stored.start.root_id)
        await self._seat.wake_owners(stored.start.root_id)

    async def fork(self, scope: AnyScope, run_id: str, step: int) -> LiveRun:
        """Start a new run in the state that *run_id* had before its model call of *step*.

        Raises `RunStateError` if there is no such step, `ErasedError`.
        """
        return await self.resume(scope, await self.create_fork(scope, run_id, step))

    async def create_fork(self, scope: AnyScope, run_id: str, step: int) -> str:
        """Create a fork without resuming it, and return its id. Raises as `fork`."""
        return await fork(self._seat.journals, await self._journal(scope, run_id), step)

    async def replay(self, scope: AnyScope, run_id: str) -> Iterator[tuple[int, str, ModelRequest]]:
        """Return the step, the model's id and the request of each model call of the run's turns, from its journal."""
        return requests(await self._journal(scope, run_id))

    async def unsettled_usage(self, scope: AnyScope, limit: int = 100, after: str = "") -> Sequence[UsageRecord]:
        """Return the `unknown` usage records, the oldest first; *after* is the last id of the previous page."""
        check_number(limit=limit)
        check_text(after=after)
        return await self.store.unsettled_usage(scope, limit=limit, after=after)

    async def settle_usage(self, scope: AnyScope, record: UsageRecord) -> None:
        """Replace an unknown or estimated usage record by the figures of the provider's bill, under the same id.

        Raises `UnknownRunError`, and `StorageError` if the record is unknown or measured.
        """
        await self.store.settle_usage(scope, record)

    # -- conversations -------------------------------------------------------------------------------------------

    async def conversation(
        self, scope: Scope, conversation_id: str | None = None, *, agent: AgentConfig[Any] | str | None = None
    ) -> Conversation:
        """Return a conversation of *scope*. With *agent*, a missing one is created; the default id is a new one.

        Raises `UnknownConversationError`, and `ConfigurationError` for a new conversation without an agent.
        """
        if not isinstance(scope, Scope):
            raise ConfigurationError(f"a conversation belongs to a Scope, not to {scope!r:.80}")
        check_text(conversation_id="" if conversation_id is None else conversation_id)
        if agent is not None:
            name = self._agents.take(agent)[0].name
            stored = await self.store.open_conversation(scope, conversation_id or new_conversation_id(), name)
        elif conversation_id is None:
            raise ConfigurationError("a new conversation has no agent: give runtime.conversation(scope, agent=...)")
        else:
            found = await self.store.conversation(scope, conversation_id)
            if found is None:
                raise UnknownConversationError(
                    f"there is no conversation {conversation_id!r}: create it with runtime.conversation(..., agent=...)"
                )
            stored = found
        return Conversation(self, self._turns, scope, stored)

    async def conversations(
        self, scope: AnyScope, limit: int = 50, before: str | None = None
    ) -> Sequence[StoredConversation]:
        """Return the conversations of *scope*, the last updated first; *before* is the last id of the previous page.

        Raises `UnknownConversationError` if *before* is unknown.
        """
        check_number(limit=limit)
        check_text(before=before or "")
        return await self.store.conversations(scope, limit=limit, before=before)

    async def search(self, scope: AnyScope, text: str, limit: int = 20) -> Sequence[StoredTurn]:
        """Return the turns of *scope* that have all words of *text* in their messages or answers, the best first.

        Only ended turns are searched, and only text that their data policy keeps without a time limit.
        """
        check_number(limit=limit)
        check_text(text=text)
        return await self.store.search_turns(scope, text, limit=limit)

    async def write_title(self, scope: Scope, conversation: StoredConversation, model: Model | str | None) -> str:
        """Write the title of a conversation. Use `Conversation.title`, which writes it once."""
        policy = await self.data_policy(scope, conversation.agent, conversation.leaf)
        return await write_title(self, policy, scope, conversation, model)

    def _wake(self) -> None:
        self._watchdog.wake()

    async def _answered(self, wait: Wait) -> None:
        """Continue the tree of *wait*, which may have all answers now, here or in the process that takes it."""
        if self._watching is not None and self._seat.agents():
            await self._watchdog.look(only_trees=True, woken=True)
        await self._seat.wake_owners_of(wait)

    async def look(self) -> None:
        """Check the store once, as the watchdog does every *sweep* seconds."""
        self._drop_done()
        await self._watchdog.look()

    async def data_policy(self, scope: AnyScope, agent: str, run_id: str) -> DataPolicy:
        """Return the data policy of *agent*, for text from outside.

        If this process does not have the agent, the policy is that of its run *run_id*. Raises `ConfigurationError`
        if that cannot be read.
        """
        if agent in self._agents:
            return await hooks_of(self._agents[agent][0]).get_data_policy()
        try:
            return policy_of(started_of(await self._journal(scope, run_id)).policy)
        except (UnknownRunError, ErasedError):
            if agent:
                self._agents.take(agent)  # raises
            raise

    async def check(self, chat: Chat, agent: str) -> None:
        """Raise `ConfigurationError` if a run of *chat* could not start in this process, if it has the agent."""
        if agent in self._agents:
            config, registry = self._agents[agent]
            resources = self._resources.shared or await self._resources.of(chat, config)
            check_start(chat, resources, config, registry)

    async def setup(self, scope: Scope, agent: str) -> tuple[tuple[AgentConfig[Any], ToolRegistry | None], Resources]:
        """Return the agent with this name, its registry, and the resources of its runs for *scope*.

        Raises `ConfigurationError`, `ResourcesError`.
        """
        found = self._agents.take(agent)
        return found, await self._resources.of(Chat(scope=scope), found[0])

    async def _clean(self, scope: AnyScope, run_id: str, text: str) -> str:
        """Return *text*, from outside, as it may enter a run that *scope* reaches."""
        stored = await self.store.run(scope, run_id)
        if stored is None:
            return text
        # A sub-agent's policy also has the patterns of its parents.
        agent = stored.start.agent if stored.start.run_id == stored.start.root_id else ""
        redactor = redactor_of(tuple((await self.data_policy(scope, agent, run_id)).patterns))
        return text if redactor is None else redactor.text(text)

    async def _stored(self, scope: AnyScope, run_id: str) -> StoredRun:
        if (stored := await self.store.run(scope, run_id)) is None:
            raise UnknownRunError(f"there is no run {run_id!r} in this store")
        return stored

    async def _journal(self, scope: AnyScope, run_id: str, *, from_snapshot: bool = False) -> StoredJournal:
        if (journal := await self.store.load(scope, run_id, from_snapshot=from_snapshot)) is None:
            raise UnknownRunError(f"there is no run {run_id!r} in this store")
        return journal

    async def _run(
        self,
        chat: Chat,
        config: AgentConfig[Any],
        registry: ToolRegistry | None,
        run_id: str,
        *,
        resume: bool,
        claimed: Claimed | None = None,
    ) -> LiveRun:
        resources = self._resources.shared or await self._resources.of(chat, config)
        if isinstance(config, ToolRun):
            chat = dataclasses.replace(chat, model=model_for_tool(chat, resources))
        orchestrator = ToolOrchestrator(
            chat,
            config,
            registry,
            resources=resources,
            run_id=run_id,
            observers=self.observers,
            resume=resume,
            lease=self._lease,
        )
        orchestrator.claimed = claimed
        live = LiveRun(orchestrator, self._log)
        try:
            await live.started()
        except BaseException as error:
            if resume and isinstance(error, asyncio.CancelledError):
                self._live[run_id] = live  # the run exists: its resumption does not depend on the caller
            else:
                live.abandon()
            raise
        if len(self._live) >= self._most_live:
            self._drop_done()
            self._most_live = max(_MOST_DONE, 2 * len(self._live))  # so that a start costs the same however many run
        self._live[run_id] = live
        if self._seat.fleet is not None:  # nothing else looks for the next turn, or an answer during the suspension
            live.on_end(lambda: self._watchdog.wake() if resume or not live.has_ended else self._seat.starts.freed())
        live.on_end(lambda: self._calls.left(live, chat.caller))
        return live

    def _busy(self) -> int:
        """Return the number of runs in progress."""
        return sum(not live.done for live in self._live.values())

    def _drop_done(self) -> None:
        """Forget the runs that have ended or are suspended: the store has them."""
        self._live = {run_id: live for run_id, live in self._live.items() if not live.done}
