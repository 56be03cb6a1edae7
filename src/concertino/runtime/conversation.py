"""`Conversation`: a tree of turns with one active branch, on top of runs. A turn is one run."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Literal, Protocol, assert_never, get_args

from ..errors import (
    ConfigurationError,
    ConversationBusyError,
    RunStateError,
    TurnExistsError,
    UnknownConversationError,
)
from ..events import RunEvent, RunResult, StopReceipt
from ..ids import new_run_id
from ..messages import Message
from ..orchestrator.chat import Chat
from ..orchestrator.event_stream import Observer
from ..orchestrator.journal.data_policy import DataPolicy
from ..orchestrator.journal.patterns import redactor_of
from ..orchestrator.tracing import current_trace
from ..providers.base import Model, model_id
from ..scope import AnyScope, Scope
from ..storage.base import Store
from ..storage.conversation_types import (
    ENDED_STATES,
    Feedback,
    QueuedTurn,
    QueueWhen,
    Rating,
    StoredConversation,
    StoredTurn,
)
from .checks import check_number, check_text
from .conversation_export import Export, exported
from .conversation_stream import ConversationStream, Followed
from .event_log import Until
from .event_pieces import one_by_one
from .kept_text import kept_text
from .live_run import LiveRun
from .turn_input import check_input, encode_input, in_conversation, started_input
from .turns import TurnStarter

WhenBusy = Literal["queue", "steer", "interrupt", "refuse"]
"""The treatment of a message that arrives during a turn. `queue`: it becomes a queued turn. `steer`: the agent sees it
before its next step, or it is queued if no turn is in progress. `interrupt`: the turn is stopped, and the message is
the next one. `refuse`: `ConversationBusyError`."""

_POLL = 0.02
_MOST_POLL = 0.2


class _Runs(Protocol):
    """The part of the runtime that conversations need."""

    store: Store
    observers: tuple[Observer, ...]

    def live(self, scope: AnyScope, run_id: str) -> LiveRun | None: ...

    def events(
        self, scope: AnyScope, run_id: str, after: int = 0, *, until: Until = "ended"
    ) -> AsyncGenerator[tuple[int, RunEvent], None]: ...

    def event_batches(
        self, scope: AnyScope, run_id: str, after: int = 0, *, until: Until = "ended"
    ) -> AsyncGenerator[Sequence[tuple[int, RunEvent]], None]: ...

    async def data_policy(self, scope: AnyScope, agent: str, run_id: str) -> DataPolicy: ...

    async def check(self, chat: Chat, agent: str) -> None: ...

    async def result(self, scope: AnyScope, run_id: str) -> RunResult: ...

    async def stop(self, scope: AnyScope, run_id: str) -> StopReceipt: ...

    async def write_title(self, scope: Scope, conversation: StoredConversation, model: Model | str | None) -> str: ...


class ConversationTurn:
    """A turn of a conversation: a message, and the run that answers it. A queued turn has no run yet."""

    def __init__(self, conversation: Conversation, run_id: str) -> None:
        self.id = run_id
        """The turn's id, which is also its run's."""
        self._conversation = conversation
        self._runs = conversation._runs

    @property
    def run_id(self) -> str:
        """The id of the turn's run."""
        return self.id

    @property
    def closed(self) -> bool:
        """Return whether the runtime is closed, so that no more events follow in this process."""
        return self._conversation._starter.events.closed

    async def read(self) -> StoredTurn:
        """Return the turn as stored: its state, message, answer and feedback."""
        return await self._runs.store.turn(self._conversation.scope, self._conversation.id, self.id)

    async def result(self) -> RunResult:
        """Wait until the turn, in any process, has ended or is suspended, and return its result.

        Raises `RunStateError` if it waits for an answer in another process, or is a dead letter.
        """
        if (live := await self._live()) is None:
            return await self._runs.result(self._conversation.scope, self.id)
        result = await live.result()
        await self._conversation._starter.settled(self.id)
        return result

    def events(self, after: int = 0, *, until: Until = "ended") -> AsyncGenerator[tuple[int, RunEvent], None]:
        """Yield the turn's events after number *after* with their numbers, in any process.

        Waits for a queued turn to start, unless the runtime is closed. The iteration ends like that of
        `Runtime.events`.
        """
        return one_by_one(self.event_batches(after, until=until))

    async def event_batches(
        self, after: int = 0, *, until: Until = "ended"
    ) -> AsyncGenerator[Sequence[tuple[int, RunEvent]], None]:
        """Yield the same as `events`, in lists of all pairs that are available."""
        while (await self.read()).state == "queued":
            if not await self._conversation._starter.left_queue(self.id):
                return
        async with aclosing(self._runs.event_batches(self._conversation.scope, self.id, after, until=until)) as batches:
            async for batch in batches:
                yield batch
                del batch  # as in `one_by_one`

    async def messages(self) -> Sequence[Message]:
        """Return the messages that the turn has added, as the data policy leaves them."""
        return [stored.message for stored in await self._runs.store.messages(self._conversation.scope, self.id)]

    async def stop(self) -> StopReceipt:
        """Stop the turn, also in another process. Partial text is kept."""
        return await self._runs.stop(self._conversation.scope, self.id)

    async def _live(self) -> LiveRun | None:
        """Return the turn's run in this process; None if it has ended elsewhere. Waits for a queued turn."""
        delay = _POLL
        while (live := self._runs.live(self._conversation.scope, self.id)) is None:
            state = (await self.read()).state
            if state in ENDED_STATES:
                return None
            if state in ("waiting", "dead_letter"):
                raise RunStateError(f"turn {self.id} has not ended: it is {state!r}")
            if state != "queued" or not await self._conversation._starter.left_queue(self.id):
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, _MOST_POLL)
        return live


class Conversation:
    """A conversation of one scope with one agent: `await runtime.conversation(scope, id)`.

    Its turns form a tree. The active branch leads from the first turn to the active leaf, and the next message follows
    the leaf. Only one turn runs at a time, in all processes. Every method may raise `StorageError`, and
    `UnknownConversationError` after the conversation was deleted; methods that name a turn raise `UnknownTurnError`.
    """

    def __init__(self, runs: _Runs, starter: TurnStarter, scope: Scope, stored: StoredConversation) -> None:
        self.id = stored.id
        self.scope = scope
        self.agent = stored.agent
        """The name of the agent that answers."""
        self._runs = runs
        self._starter = starter

    # -- messages ------------------------------------------------------------------------------------------------

    async def send(
        self, message: str | Chat, *, key: str = "", when_busy: WhenBusy = "queue", mode: str = ""
    ) -> ConversationTurn:
        """Send a message, and return its turn once it is recorded; from then on, it cannot be lost.

        A second message with the same *key* returns the same turn, also after a crash and in another process.
        *when_busy* decides what happens during a turn; a message that steers belongs to the turn in progress. The
        conversation lists *mode* in its `modes`.

        Raises `ConversationBusyError` if *when_busy* is "refuse", and `ConfigurationError`.
        """
        chat = Chat(message) if isinstance(message, str) else message
        return await self._append(chat, None, key, when_busy, mode)

    async def regenerate(
        self, turn_id: str, *, model: Model | str | None = None, key: str = "", when_busy: WhenBusy = "refuse"
    ) -> ConversationTurn:
        """Answer the message of a turn again, with another *model* if given, as an alternative to that turn.

        Raises `ErasedError` if the data policy has erased the message.
        """
        turn, chat = await input_of(self, turn_id)
        chat = chat if model is None else dataclasses.replace(chat, model=model)
        return await self._append(chat, turn.parent, key, when_busy, turn.mode)

    async def edit(
        self, turn_id: str, message: str | Chat, *, key: str = "", when_busy: WhenBusy = "refuse"
    ) -> ConversationTurn:
        """Send another message as an alternative to a turn. The old turn stays in the tree."""
        if isinstance(message, str):
            turn, chat = await input_of(self, turn_id)
            chat = dataclasses.replace(chat, message=message)
        else:
            turn, chat = await (await self.turn(turn_id)).read(), message
        return await self._append(chat, turn.parent, key, when_busy, turn.mode)

    async def branch(self, turn_id: str) -> None:
        """Make a turn the active leaf: the next message begins a new branch after it."""
        check_text(turn_id=turn_id)
        await self._runs.store.select_leaf(self.scope, self.id, turn_id)
        _ring(self)

    async def switch(self, turn_id: str) -> str:
        """Activate the branch of a turn, up to the newest turn below it. Return the id of the leaf."""
        check_text(turn_id=turn_id)
        leaf = await self._runs.store.select_leaf(self.scope, self.id, turn_id, newest=True)
        _ring(self)
        return leaf

    async def withdraw(self, turn_id: str) -> bool:
        """Remove a queued turn. Return False if it has started already."""
        check_text(turn_id=turn_id)
        withdrawn = await self._runs.store.withdraw_turn(self.scope, self.id, turn_id)
        _ring(self)
        return withdrawn

    # -- reading -------------------------------------------------------------------------------------------------

    async def read(self) -> StoredConversation:
        """Return the conversation as stored: its title, active leaf, modes and tools."""
        found = await self._runs.store.conversation(self.scope, self.id)
        if found is None:
            raise UnknownConversationError(f"there is no conversation {self.id!r}: it was deleted")
        return found

    async def turn(self, turn_id: str) -> ConversationTurn:
        """Return one turn."""
        check_text(turn_id=turn_id)
        await self._runs.store.turn(self.scope, self.id, turn_id)
        return ConversationTurn(self, turn_id)

    async def turns(self, limit: int = 50, before: str | None = None) -> Sequence[StoredTurn]:
        """Return the turns of the active branch, the newest first; *before* is the last id of the previous page."""
        check_number(limit=limit)
        check_text(before=before or "")
        return await self._runs.store.turns(self.scope, self.id, limit=limit, before=before)

    async def queue(self) -> Sequence[StoredTurn]:
        """Return the queued turns."""
        turns = await self._runs.store.all_turns(self.scope, self.id)
        return [turn for turn in turns if turn.state == "queued"]

    async def follow(self, after: str = "") -> AsyncGenerator[Followed, None]:
        """Yield the conversation as stored, now and after each change, and the events of its turns, with positions.

        The changes may come from any process. *after* is the position of an event: its turn continues after it, and all
        turns follow that have started since, in order. By default, the events begin with the turn in progress, or with
        the next one. A stored conversation has the position "". Every reader gets the newest one first, and another one
        before the events of each turn that starts. The iteration ends when the runtime is closed.

        Raises `UnknownTurnError`, and `ConfigurationError` for an invalid position.
        """
        stream = ConversationStream(self, self._starter.events.conversations)
        async with aclosing(stream.read(after)) as items:
            async for item in items:
                yield item

    async def export(self) -> Export:
        """Return the whole conversation as JSON with a version, as the data policy leaves it."""
        return await exported(self._runs.store, self.scope, await self.read())

    # -- what people add -----------------------------------------------------------------------------------------

    async def title(self, model: Model | str | None = None) -> str:
        """Return the title. If it is missing, *model* writes it from the first turn.

        The default is the model of the resources. The call is a run of its own, which is billed to the scope. Returns
        "" if the conversation has no answer yet, or if the data policy keeps no text.
        """
        stored = await self.read()
        if stored.title:
            return stored.title
        title = await self._runs.write_title(self.scope, stored, model)
        _ring(self)
        return title

    async def set_title(self, title: str) -> None:
        """Replace the title."""
        check_text(title=title)
        title, seconds = kept_text(await _policy_of(self), title)
        await self._runs.store.set_title(self.scope, self.id, title, keep_seconds=seconds)
        _ring(self)

    async def rate(self, turn_id: str, rating: Rating | None, text: str = "") -> None:
        """Replace the feedback on a turn's answer; None without text removes it."""
        if rating not in (None, *get_args(Rating)):
            raise ConfigurationError(f"invalid rating {rating!r}: choose 'up', 'down' or None")
        check_text(turn_id=turn_id, text=text)
        text, seconds = kept_text(await _policy_of(self), text) if text else ("", None)
        feedback = Feedback(rating=rating, text=text) if rating or text else None
        await self._runs.store.rate_turn(self.scope, self.id, turn_id, feedback, keep_seconds=seconds)
        _ring(self)

    async def delete(self) -> None:
        """Erase the conversation with its runs, which are stopped first. The ledger stays."""
        for turn in await self._runs.store.all_turns(self.scope, self.id):
            if (live := self._runs.live(self.scope, turn.run_id)) is not None and not live.done:
                live.request_stop()
                await live.result()
        self._starter.forget(self.scope, self.id)
        await self._runs.store.delete_conversation(self.scope, self.id)
        _ring(self)

    # -- parts ---------------------------------------------------------------------------------------------------

    async def _append(
        self, chat: Chat, parent: str | None, key: str, when_busy: WhenBusy, mode: str
    ) -> ConversationTurn:
        if when_busy not in get_args(WhenBusy):
            raise ConfigurationError(f"invalid when_busy {when_busy!r}: choose from {', '.join(get_args(WhenBusy))}")
        check_text(key=key, mode=mode)
        check_input(chat)
        if self._runs.observers:
            chat = current_trace(chat, self._runs.observers)  # a queued turn starts elsewhere
        first = when_busy == "interrupt"
        turn = QueuedTurn(run_id=new_run_id(), input={}, parent=parent, key=key, mode=mode, first=first)
        while True:
            try:
                if not self._starter.seat.takes(self.agent):
                    return await _leave_to_others(self, turn, chat, when_busy)
                await self._starter.start(self.scope, self.id, self.agent, chat, turn)
                return ConversationTurn(self, turn.run_id)
            except TurnExistsError as exists:
                return ConversationTurn(self, exists.run_id)
            except ConversationBusyError as busy:
                try:
                    run_id = await self._wait_in_line(turn, chat, when_busy, busy, when="busy")
                except TurnExistsError as exists:
                    run_id = exists.run_id
                    first = first and await _is_queued(self, run_id)
                if run_id is None:
                    await self._starter.look()
                    continue
                if first:
                    await self._interrupt(busy.run_id)
                return ConversationTurn(self, run_id)

    async def _wait_in_line(
        self, turn: QueuedTurn, chat: Chat, when_busy: WhenBusy, busy: ConversationBusyError, *, when: QueueWhen
    ) -> str | None:
        """Queue or steer a message. Return the run id of its turn; None if the conversation is in another state."""
        store = self._runs.store
        if when_busy != "refuse" and (redactor := redactor_of(tuple((await _policy_of(self)).patterns))) is not None:
            chat = redactor.chat(chat)  # a queue is stored before a run could redact it
        match when_busy:
            case "refuse":
                raise busy
            case "steer":
                if chat.media:
                    raise ConfigurationError("a message to the turn in progress is text: queue one with media")
                run_id = await store.steer_turn(self.scope, self.id, turn.key, chat.message)
                # If others are queued, they may start in another process.
                return run_id or await self._wait_in_line(turn, chat, "queue", busy, when=when)
            case "queue" | "interrupt":
                if chat.model is not None and not isinstance(chat.model, str):
                    chat = dataclasses.replace(chat, model=model_id(chat.model))  # as the queue has it
                await self._runs.check(in_conversation(chat, self.scope, self.id), self.agent)
                turn = dataclasses.replace(turn, input=encode_input(chat))
                if not await store.queue_turn(self.scope, self.id, turn, when=when):
                    return None
                _ring(self)
                return turn.run_id
            case _:
                assert_never(when_busy)

    async def _interrupt(self, run_id: str) -> None:
        """Stop the turn in progress, and start what waits for its end."""
        with suppress(RunStateError):  # it has ended, or has not started
            await self._runs.stop(self.scope, run_id)
        await self._starter.look()


async def input_of(conversation: Conversation, turn_id: str) -> tuple[StoredTurn, Chat]:
    """Return a turn with the chat that it was given."""
    check_text(turn_id=turn_id)
    store, scope = conversation._runs.store, conversation.scope
    turn = await store.turn(scope, conversation.id, turn_id)
    journal = await store.load(scope, turn_id)
    if journal is None:
        raise RunStateError(f"turn {turn_id} is queued: withdraw it, and send another message")
    return turn, started_input(journal, turn.message)


async def _policy_of(conversation: Conversation) -> DataPolicy:
    """Return the data policy for texts that are stored without a run."""
    leaf = (await conversation.read()).leaf
    return await conversation._runs.data_policy(conversation.scope, conversation.agent, leaf)


async def _leave_to_others(
    conversation: Conversation, turn: QueuedTurn, chat: Chat, when_busy: WhenBusy
) -> ConversationTurn:
    """Record a message for the processes that take the work of the agent."""
    busy = (await conversation.read()).busy
    error = _busy_with(conversation, busy)
    interrupts = when_busy == "interrupt"
    how: WhenBusy = "steer" if busy and when_busy == "steer" else "queue"
    when: QueueWhen = "idle" if when_busy == "refuse" else "always"
    try:
        run_id = await conversation._wait_in_line(turn, chat, how, error, when=when)
    except TurnExistsError as exists:
        run_id = exists.run_id
        interrupts = interrupts and await _is_queued(conversation, run_id)
    if run_id is None:  # another message may have come first, at another web process
        raise _busy_with(conversation, busy or (await conversation.read()).busy)
    if interrupts and busy not in ("", run_id):
        await conversation._interrupt(busy)
    conversation._starter.seat.ring(conversation.agent)
    return ConversationTurn(conversation, run_id)


async def _is_queued(conversation: Conversation, run_id: str) -> bool:
    return (await ConversationTurn(conversation, run_id).read()).state == "queued"


def _busy_with(conversation: Conversation, run_id: str) -> ConversationBusyError:
    return ConversationBusyError(f"conversation {conversation.id!r} is busy with turn {run_id}", run_id)


def _ring(conversation: Conversation) -> None:
    """Wake those who follow a conversation, in all processes."""
    conversation._starter.events.conversations.ring(conversation.scope, conversation.id)
