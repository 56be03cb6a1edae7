"""The stream of a conversation: its state after each change, and the events of its turns, one turn after another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..events import RunEvent
from ..storage.conversation_types import ENDED_STATES, StoredConversation
from .conversation_watch import ConversationWatch, Mark

if TYPE_CHECKING:
    from .conversation import Conversation

_AHEAD = 16
"""Most items that are read before the reader takes them."""
Followed = tuple[str, StoredConversation | RunEvent]


class _End:
    """The end of one source, with its error."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class ConversationStream:
    """Reads one conversation for one reader."""

    def __init__(self, conversation: Conversation, watch: ConversationWatch) -> None:
        self._conversation = conversation
        self._store = conversation._runs.store
        self._watch = watch
        self._name = (conversation.scope, conversation.id)

    async def read(self, after: str) -> AsyncGenerator[Followed, None]:
        """Yield states and events as they come, until the runtime is closed. Raises as `Conversation.follow`."""
        with self._watch.listening(*self._name):
            async with aclosing(self._read(after)) as items:
                async for item in items:
                    yield item

    async def _read(self, after: str) -> AsyncGenerator[Followed, None]:
        run_id, number = await self._position(after) if after else await self._now()
        mark = await self._watch.mark(*self._name)
        yield "", await self._conversation.read()
        queue: asyncio.Queue[Followed | _End] = asyncio.Queue(_AHEAD)
        sources = (self._states(mark), self._events(run_id, number))
        pumps = [asyncio.create_task(_pump(each, queue)) for each in sources]
        try:
            while not isinstance(item := await queue.get(), _End):
                yield item
            if item.error is not None:
                raise item.error
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)

    async def _position(self, after: str) -> tuple[str, int]:
        run_id, _, number = after.rpartition(":")
        if not run_id or not (number.isascii() and number.isdecimal()) or len(number) > 18:
            raise ConfigurationError(
                f"invalid position {after!r:.80}: use the position of an event of this conversation"
            )
        await self._conversation.turn(run_id)
        return run_id, int(number)

    async def _now(self) -> tuple[str, int | None]:
        """Return the beginning of the turn in progress; without one, the end of the last turn."""
        for run_id in await self._store.started_turns(*self._name):
            stored = await self._store.turn(*self._name, run_id)
            return run_id, None if stored.state in ENDED_STATES else 0
        return "", None

    async def _states(self, mark: Mark) -> AsyncGenerator[Followed, None]:
        while await self._watch.changed(*self._name, mark):
            mark = await self._watch.mark(*self._name)
            yield "", await self._conversation.read()

    async def _events(self, run_id: str, number: int | None) -> AsyncGenerator[Followed, None]:
        """Yield the events of a turn after *number*, unless it is None, and of the turns that start after it."""
        while not self._watch.closed:
            if number is not None:
                async with aclosing(self._conversation._runs.events(self._conversation.scope, run_id, number)) as log:
                    async for at, event in log:
                        yield f"{run_id}:{at}", event
            mark = await self._watch.mark(*self._name)
            started = await self._store.started_turns(*self._name, after=run_id, limit=1)
            if started:
                run_id, number = started[0], 0
                yield "", await self._conversation.read()  # the reader knows a turn before its events come
            else:
                number = None
                await self._watch.changed(*self._name, mark)


async def _pump(source: AsyncGenerator[Followed, None], queue: asyncio.Queue[Followed | _End]) -> None:
    failure = None
    try:
        async with aclosing(source):
            async for item in source:
                await queue.put(item)
    except Exception as error:  # noqa: BLE001 - the reader raises it
        failure = error
    await queue.put(_End(failure))
