"""Looks for changes of the conversations that someone follows, in whichever process they are made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from ..errors import StorageError
from ..scope import OPERATOR, AnyScope, Scope
from ..storage.base import Store
from .bus.base import Bell, conversation_topic

POLL = 0.1
"""Seconds between two looks at the conversations that are followed: other processes may change them."""
RARE = 1.0
"""The same with a bell that reaches other processes, which may lose a ring."""
_MOST_SHARE = 0.1
"""Most of the time that is spent on looking: with thousands of followed conversations, the looks become rarer."""
_BATCH = 500
"""Conversations of one look, which nothing else in the store can interrupt."""
Mark: TypeAlias = str | None
"""The state of a conversation, to be compared with a later one; None: it does not exist."""
_Name = tuple[Scope, str]


class ConversationWatch:
    """Wakes the readers of conversations. One task looks for all of them: from time to time, and when a bell rings."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bell: Bell | None = None
        """Tells readers in all processes of changes."""
        self._rung: dict[_Name, None] = {}
        """Conversations to look at, since a bell has rung or a reader has come."""
        self._woken = asyncio.Event()
        self._waiting: dict[_Name, list[tuple[Mark, asyncio.Future[None]]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self.closed = False

    async def mark(self, scope: Scope, conversation_id: str) -> Mark:
        """Return the mark of a conversation."""
        (found,) = await self._store.conversation_marks(OPERATOR, [(scope, conversation_id)])
        return found

    def ring(self, scope: AnyScope, conversation_id: str) -> None:
        """Wake the readers of a conversation, in all processes: it may have changed."""
        if not conversation_id or not isinstance(scope, Scope):
            return
        if self.bell is None:
            if self._waiting:
                self._look_soon((scope, conversation_id))
        else:
            self.bell.ring(conversation_topic(scope.key, conversation_id))

    @contextmanager
    def listening(self, scope: Scope, conversation_id: str) -> Iterator[None]:
        """Listen to the bell of a conversation in a `with` block."""
        if self.bell is None:
            yield
            return
        name = (scope, conversation_id)
        end = self.bell.listen(conversation_topic(scope.key, conversation_id), lambda: self._look_soon(name))
        try:
            yield
        finally:
            end()

    def _look_soon(self, name: _Name) -> None:
        self._rung[name] = None
        self._woken.set()

    async def changed(self, scope: Scope, conversation_id: str, known: Mark) -> bool:
        """Wait until the mark of a conversation is not *known*. Return False if the watch is closed."""
        if not self.closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.setdefault((scope, conversation_id), []).append((known, waiter))
            self._look_soon((scope, conversation_id))  # a bell may have rung before the reader waited
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
        self._woken = asyncio.Event()  # the last one may belong to another event loop
        due = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(due - time.monotonic(), 0.0)):
                    await self._woken.wait()
            self._woken.clear()
            rung, self._rung = self._rung, {}
            began = time.monotonic()
            if everything := began >= due:
                self._waiting = self._left()
                if not self._waiting:
                    return
            names = list(self._waiting) if everything else [name for name in rung if name in self._waiting]
            for at in range(0, len(names), _BATCH):
                await self._look(names[at : at + _BATCH])
            if everything:
                pause = RARE if self.bell is not None and self.bell.reaches_others else POLL
                due = time.monotonic() + max(pause, (time.monotonic() - began) / _MOST_SHARE)

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
