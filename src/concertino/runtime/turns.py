"""Starts the turns of conversations, one at a time, and keeps the history of the newest for their next turn."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import eq
from typing import Any, Protocol, TypeVar

from ..context_state import ContextState
from ..errors import (
    ConcertinoError,
    ConfigurationError,
    ConversationBusyError,
    DamagedDataError,
    LeafMovedError,
    MissingExtraError,
    MissingKeyError,
    ResourcesError,
    RunExistsError,
    RunStateError,
    UnknownConversationError,
)
from ..events import RunResult
from ..messages import Message, Messages
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.journal.data_policy import DataPolicy
from ..orchestrator.journal.entries import unpack_context
from ..orchestrator.lifecycle.refusal import record_refusal
from ..records import record
from ..scope import OPERATOR, AnyScope, Scope
from ..storage.base import Store
from ..storage.conversation_types import ENDED_STATES, DueTurn, QueuedTurn, StoredHistory
from ..storage.types import TurnStart
from .event_log import EventLog
from .fleet import Seat
from .live_run import LiveRun
from .turn_input import decode_input, in_conversation
from .watchdog import BACK_OFF, BATCH, LONGEST

log = logging.getLogger("concertino")

T = TypeVar("T")

MAY_CHANGE = (ResourcesError, MissingKeyError, MissingExtraError)
"""Errors of the process or the tenant's resources, not of the work: another attempt may succeed."""
_DAMAGED = "[damaged]"
"""Stands for a message that cannot be read: a model's API refuses an empty one in the history."""
CLAIM = 5.0
"""Most seconds in which a claimed turn is to start; no more than a lease. After them, any process may start it: the
other one may have died."""
HELD = 64
"""Most conversations whose history a process keeps."""
_LOOK = "look for queued turns"


class _Runs(Protocol):
    """The part of the runtime that starts a run."""

    async def _start(self, chat: Chat, agent: AgentConfig[Any] | str, run_id: str) -> LiveRun: ...

    async def data_policy(self, scope: AnyScope, agent: str, run_id: str) -> DataPolicy: ...


@record
class _Held:
    """The branch of a conversation up to its *leaf*, as its next turn needs it."""

    leaf: str
    messages: Messages
    context: ContextState | None
    packed: Sequence[Any] | None
    """The context as the store has it."""


class TurnStarter:
    """Starts turns. The store decides which turn is next; this process keeps what the next one would load."""

    def __init__(self, store: Store, runs: _Runs, events: EventLog, seat: Seat, lease: float) -> None:
        self._store = store
        self._seconds = min(CLAIM, lease)
        self._runs = runs
        self.events = events
        self.seat = seat
        self._failures: dict[str, int] = {}
        """By queued turn: how often it could not be started here."""
        self._held: OrderedDict[tuple[Scope, str], _Held] = OrderedDict()
        self._following: dict[str, tuple[LiveRun, asyncio.Task[None]]] = {}
        """By run: a turn that began in this process, until its history is kept."""
        self._claiming = asyncio.Lock()
        """Held while turns are claimed and not yet starting: then the next look knows how many more there may be."""

    async def start(
        self, scope: Scope, conversation_id: str, agent: str, chat: Chat, turn: QueuedTurn, *, queued: bool = False
    ) -> LiveRun:
        """Start *turn* with *chat*.

        Raises `ConversationBusyError`, `TurnExistsError`, `UnknownConversationError`, and `RunExistsError` if another
        process has started it.
        """

        async def run(given: Chat, held: _Held) -> LiveRun:
            live = await self._runs._start(given, agent, turn.run_id)
            follow = self._follow(scope, conversation_id, held, live)
            self._following[live.id] = live, asyncio.create_task(follow, name=f"turn {live.id}")
            self.events.wake(live.id)
            return live

        return await self._as_next(scope, conversation_id, chat, turn, run, queued=queued)

    async def _as_next(
        self,
        scope: Scope,
        conversation_id: str,
        chat: Chat,
        turn: QueuedTurn,
        run: Callable[[Chat, _Held], Awaitable[T]],
        *,
        queued: bool,
        refused: bool = False,
    ) -> T:
        """Call *run* with the chat of *turn* as the next turn, until no other turn comes in between.

        A *refused* turn needs no history: it may be refused because its history is damaged.
        """
        while True:
            found = await self._store.conversation(scope, conversation_id)
            if found is None:
                raise UnknownConversationError(f"there is no conversation {conversation_id!r}")
            if found.busy and not queued:
                raise ConversationBusyError(
                    f"conversation {conversation_id!r} is busy with turn {found.busy}: wait for it, stop it, or choose "
                    "another when_busy",
                    found.busy,
                )
            parent = found.leaf if turn.parent is None else turn.parent
            try:
                held = await self._branch(scope, conversation_id, parent)
            except DamagedDataError:
                if not refused:
                    raise
                held = _Held(parent, Messages([]), None, None)
            given = dataclasses.replace(
                in_conversation(chat, scope, conversation_id),
                history=held.messages,
                context=held.context,
                turn=TurnStart(
                    parent=parent,
                    context=held.packed,
                    at_leaf=turn.parent is None,
                    key=turn.key,
                    mode=turn.mode,
                    queued=queued,
                ),
            )
            with suppress(LeafMovedError):
                return await run(given, held)

    async def look(self) -> bool:
        """Close the turns that have ended, and start a batch of queued turns. Return whether others may be due.

        What is claimed is started, also if the caller is cancelled.
        """
        return await asyncio.shield(self.seat.starts.look(self._look(), _LOOK))

    async def _look(self) -> bool:
        more, again = False, True
        async with self._claiming:
            while again and (limit := self.seat.capacity(BATCH)):  # after a refusal, the next turn is due
                agents, consumer = self.seat.agents(), self.seat.consumer()
                due = await self._store.claim_turns(
                    OPERATOR, self._seconds, limit=limit, agents=agents, consumer=consumer
                )
                more = len(due) == limit
                again = any(
                    await self.seat.starts.begin({each.turn.run_id: partial(self._start_due, each) for each in due})
                )
        return more

    async def left_queue(self, run_id: str) -> bool:
        """Wait until a turn is not queued any more, in any process. Return False if the runtime is closed."""
        return await self.events.left_queue(run_id)

    async def settled(self, run_id: str) -> None:
        """Wait until the history of a turn that has ended here is kept; do not wait for the end itself."""
        live, task = self._following.get(run_id, (None, None))
        if live is not None and task is not None and live.done:
            await asyncio.wait([task])

    def forget(self, scope: Scope, conversation_id: str) -> None:
        """Drop the history of a conversation."""
        self._held.pop((scope, conversation_id), None)

    async def close(self) -> None:
        """Start the turns that are claimed, then stop following turns."""
        await self.seat.starts.close()
        following = [task for _, task in self._following.values()]
        for task in following:
            task.cancel()
        if following:
            await asyncio.wait(following)
        self._following.clear()
        self._claiming = asyncio.Lock()  # the runtime may begin again in another event loop

    async def _start_due(self, due: DueTurn) -> bool:
        """Start a claimed turn. Return whether it was ended instead."""
        scope, run_id = Scope(due.tenant, due.user), due.turn.run_id
        chat = Chat(_DAMAGED)
        try:
            chat = decode_input(due.turn.input)
            await self.start(scope, due.conversation_id, due.agent, chat, due.turn, queued=True)
            self._failures.pop(run_id, None)
        except ConversationBusyError:
            log.info("turn %s waits for another one", run_id)  # a process has put it first, and its end starts this one
            with suppress(ConcertinoError):
                await self._store.postpone_turn(scope, due.conversation_id, run_id, 0.0)
        except MAY_CHANGE as error:
            await self._postpone(due, error)
        except (ConfigurationError, DamagedDataError) as error:
            log.warning("turn %s cannot be started: %s", run_id, error)
            return await self._refuse(due, chat, str(error))
        except Exception as error:  # noqa: BLE001 - one turn must not keep the watchdog from the others
            await self._postpone(due, error)
        return False

    async def _postpone(self, due: DueTurn, error: Exception) -> None:
        """Try a turn again after a delay that doubles each time, unless another process has started or removed it."""
        run_id, scope = due.turn.run_id, Scope(due.tenant, due.user)
        try:
            if (await self._store.turn(scope, due.conversation_id, run_id)).state != "queued":
                raise RunExistsError(f"turn {run_id} was started")
            failures = self._failures[run_id] = self._failures.get(run_id, 0) + 1
            seconds = min(BACK_OFF * 2.0 ** min(failures - 1, 32), LONGEST)
            await self._store.postpone_turn(scope, due.conversation_id, run_id, seconds)
        except RunStateError:
            self._failures.pop(run_id, None)
            log.info("turn %s was started or removed by another process", run_id)
        except ConcertinoError as failure:
            log.warning("turn %s could not be postponed: %s", run_id, type(failure).__name__)
        else:
            log.warning("turn %s could not be started: %s", run_id, type(error).__name__)

    async def _refuse(self, due: DueTurn, chat: Chat, why: str) -> bool:
        """End a queued turn that can never start as failed, so that the next one can start."""
        scope = Scope(due.tenant, due.user)

        async def run(given: Chat, _: _Held) -> None:
            policy = await self._runs.data_policy(scope, due.agent, due.turn.run_id)
            await record_refusal(self.seat.journals, given, due.agent, policy, due.turn.run_id, why)

        try:
            await self._as_next(scope, due.conversation_id, chat, due.turn, run, queued=True, refused=True)
        except Exception as error:  # noqa: BLE001 - as above
            await self._postpone(due, error)
        else:
            self.events.wake(due.turn.run_id)
            self.events.conversations.ring(scope, due.conversation_id)
            return True
        return False

    async def _branch(self, scope: Scope, conversation_id: str, leaf: str) -> _Held:
        """Return the branch that ends with the turn *leaf*; only turns that this process does not keep are loaded."""
        if not leaf:
            return _Held("", Messages([]), None, None)
        await self.settled(leaf)
        held = self._held.get((scope, conversation_id))
        if held is not None and held.leaf == leaf:
            return held
        if (await self._store.turn(scope, conversation_id, leaf)).state not in ENDED_STATES:
            raise ConversationBusyError(f"turn {leaf} has not ended, and its history is not complete", leaf)
        try:
            found = await self._store.history(scope, conversation_id, leaf, after=held.leaf if held else "")
        except DamagedDataError as error:
            why = "the history before this turn is damaged: edit an earlier turn, or delete the conversation"
            raise DamagedDataError(f"{why}: {error}") from error
        earlier = held.messages if held is not None and found.after else Messages([])
        return self._keep(scope, conversation_id, leaf, earlier, found, found.messages, _context(found))

    def _keep(
        self,
        scope: Scope,
        conversation_id: str,
        leaf: str,
        earlier: Messages,
        found: StoredHistory,
        messages: Sequence[Message],
        context: ContextState | None,
    ) -> _Held:
        held = _Held(leaf, earlier.followed_by(messages), context, None if context is None else found.context)
        key = (scope, conversation_id)
        self._held.pop(key, None)
        if found.lasting:
            self._held[key] = held
            if len(self._held) > HELD:
                self._held.popitem(last=False)
        return held

    async def _follow(self, scope: Scope, conversation_id: str, before: _Held, live: LiveRun) -> None:
        """Keep the history of a turn when it has ended, and start the next one."""
        try:
            result = await live.result()
            if result.status not in ENDED_STATES:
                return
            stored = await self._store.turn(scope, conversation_id, live.id)
            if stored.state not in ENDED_STATES:
                return  # parked, or continued by another process
            await self._keep_turn(scope, conversation_id, before, result)
        except ConcertinoError as error:
            log.info("turn %s is not kept: %s", live.id, type(error).__name__)
        finally:
            self._following.pop(live.id, None)
        self.seat.starts.look(self._look(), _LOOK)  # not awaited: what it starts may wait for this task

    async def _keep_turn(self, scope: Scope, conversation_id: str, before: _Held, result: RunResult) -> None:
        """Keep the messages of a turn as the data policy leaves them.

        Where that is all of them, the run's own objects are kept: the token engine knows them.
        """
        found = await self._store.history(scope, conversation_id, result.run_id, after=before.leaf)
        if found.after != before.leaf or ((scope, conversation_id) not in self._held and before.leaf):
            return
        same = len(found.messages) == len(result.messages) and all(map(eq, found.messages, result.messages))
        messages = result.messages if same else found.messages
        context = result.context if same and found.context is not None else _context(found)
        self._keep(scope, conversation_id, result.run_id, before.messages, found, messages, context)


def _context(found: StoredHistory) -> ContextState | None:
    return None if found.context is None else unpack_context(found.context, found.texts)
