"""The events of one turn up to its end or its next wait, also for a client that answers waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from ...events import CallWaiting, RunEnded, RunEvent
from ...orchestrator.chat import Chat
from ...records import record
from ...runtime import Conversation, ConversationTurn, Runtime
from ...scope import Scope
from ...storage.conversation_types import ENDED_STATES
from ...waits import Wait

_POLL = 0.02
_MOST_WAITS = 1_000


@record
class WaitAnswer:
    """A client's answer to one wait of a turn."""

    wait: Wait
    approved: bool = True
    """False: the call is denied, or has failed."""
    content: str = ""
    """The result of the call, its error, or the reason for a denial."""
    arguments: dict[str, object] | None = None
    """Arguments in place of the call's own."""


async def send(conversation: Conversation, chat: Chat, key: str) -> ConversationTurn:
    """Send a message. It waits for a turn in progress, but stops a turn that waits for an answer."""
    busy = (await conversation.read()).busy
    waits = busy and (await (await conversation.turn(busy)).read()).state == "waiting"
    return await conversation.send(chat, key=key, when_busy="interrupt" if waits else "queue")


async def waits_of(runtime: Runtime, scope: Scope, turn: ConversationTurn) -> list[Wait]:
    """Return the waits of a turn and of its sub-agents, answered ones included."""
    return list(await runtime.store.waits(scope, root_id=turn.id, open=False, limit=_MOST_WAITS))


async def give(runtime: Runtime, scope: Scope, answer: WaitAnswer) -> None:
    """Give an answer; a late one is ignored. Raises as `Runtime.approve`."""
    wait = answer.wait
    if wait.resolution is not None:
        return
    if wait.kind == "result":
        await runtime.resolve(scope, wait.key, answer.content, failed=not answer.approved)
    elif answer.approved:
        await runtime.approve(scope, wait.key, arguments=answer.arguments)
    else:
        await runtime.deny(scope, wait.key, answer.content)


TurnEvents = Sequence[tuple[int, RunEvent, bool]]
"""Events with their numbers, and whether the client needs each."""


async def turn_log(
    turn: ConversationTurn, answered: tuple[str, ...] = (), *, suspended: bool = False
) -> AsyncGenerator[TurnEvents, None]:
    """Yield the events of a turn until it ends or waits, several at once.

    *answered* are the keys of the waits that the client has just answered. It knows the events before them; and if the
    turn was *suspended* then, also those up to its suspension. No client needs a suspension that is over: only the last
    one ends what it shows.
    """
    missing = set(answered)
    new = not missing
    after = 0
    quiet = False
    while True:
        before, ended = after, False
        held: TurnEvents = ()  # a suspension, as long as no event follows it
        async with aclosing(turn.event_batches(after, until="suspended")) as batches:
            async for batch in batches:
                found = [(number, event, False) for number, event, _ in held]
                for number, event in batch:
                    at_end = isinstance(event, RunEnded) and event.run_id == turn.id
                    is_over = at_end and event.result.status != "suspended"  # type: ignore[union-attr]
                    new = new or is_over
                    ended = at_end and new
                    is_passed = at_end and not is_over and number != batch[-1][0]
                    found.append((number, event, new and not is_passed))
                    if isinstance(event, CallWaiting):
                        missing.discard(event.key)
                    new = new or (not missing and (at_end or not suspended))
                after = batch[-1][0]
                held = [found.pop()] if at_end and not is_over else ()
                yield found
                del batch, found  # as in `one_by_one`
        if held:
            yield held
        if ended or turn.closed:
            return
        if after == before and (await turn.read()).state in ENDED_STATES:
            if quiet:
                return  # its last event is erased
            quiet = True
        await asyncio.sleep(_POLL)
