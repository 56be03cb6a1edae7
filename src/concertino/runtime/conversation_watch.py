"""Looks for changes of the conversations that someone follows, in whichever process they are made."""

from __future__ import annotations

import asyncio
import time
from typing import TypeAlias

from ..errors import StorageError
from ..scope import OPERATOR, Scope
from ..storage.base import Store

POLL = 0.1
"""Seconds between two looks at the conversations that are followed."""
_MOST_SHARE = 0.1
"""Most of the time that is spent on looking: with thousands of followed conversations, the looks become rarer."""
_BATCH = 500
"""Conversations of one look, which nothing else in the store can interrupt."""
Mark: TypeAlias = str | None
"""The state of a conversation, to be compared with a later one; None: it does not exist."""
_Name = tuple[Scope, str]


class ConversationWatch:
    """Wakes the readers of conversations. One task looks for all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[_Name, list[tuple[Mark, asyncio.Future[None]]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self.closed = False

    async def mark(self, scope: Scope, conversation_id: str) -> Mark:
        """Return the mark of a conversation."""
        (found,) = await self._store.conversation_marks(OPERATOR, [(scope, conversation_id)])
        return found

    async def changed(self, scope: Scope, conversation_id: str, known: Mark) -> bool:
        """Wait until the mark of a conversation is not *known*. Return False if the watch is closed."""
        if not self.closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.setdefault((scope, conversation_id), []).append((known, waiter))
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._poll())
            try:
                await waiter
            finally:
                waiter.cancel()
        return not self.closed

    async def close(self) -> None:
        """Wake all readers, for the last time."""
        self.closed = True
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])
        for waiter in self._left().values():
            for _, each in waiter:
                each.set_result(None)

    async def _poll(self) -> None:
        pause = POLL
        while True:
            await asyncio.sleep(pause)
            self._waiting = self._left()
            if not self._waiting:
                return
            began = time.monotonic()
            names = list(self._waiting)
            for at in range(0, len(names), _BATCH):
                await self._look(names[at : at + _BATCH])
            pause = max(POLL, (time.monotonic() - began) / _MOST_SHARE)

    async def _look(self, names: list[_Name]) -> None:
        marks: list[Mark | StorageError]
        try:
            marks = list(await self._store.conversation_marks(OPERATOR, names))
        except StorageError as error:
            marks = [error] * len(names)
        for name, mark in zip(names, marks, strict=True):
            for known, waiter in self._waiting[name]:
                if waiter.done():
                    continue
                if isinstance(mark, StorageError):
                    waiter.set_exception(mark)
                elif mark != known:
                    waiter.set_result(None)

    def _left(self) -> dict[_Name, list[tuple[Mark, asyncio.Future[None]]]]:
        return {
            name: left
            for name, waiting in self._waiting.items()
            if (left := [each for each in waiting if not each[1].done()])
        }
