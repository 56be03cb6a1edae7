"""The stream of an open page: whether the conversation has changed, and the turn in progress as HTML."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from ...errors import ConcertinoError
from ...ids import digest
from ...runtime import Conversation
from ...scope import OPERATOR
from ...storage.base import Store
from ...storage.conversation_types import StoredConversation
from ..frames import frame
from .site import Site
from .turn_parts import TurnParts, status_of
from .turn_view import TurnView

_FRAME = 0.05
"""Seconds in which events are collected: a reader sees no difference."""
_RUNS = 200
"""Runs of a tree whose ends are looked up."""


async def version_of(store: Store, conversation: Conversation) -> str:
    """Return a text that changes with what a page shows of a conversation, apart from the turn in progress."""
    (mark,) = await store.conversation_marks(OPERATOR, [(conversation.scope, conversation.id)])
    return digest(mark or "")


async def page_frames(
    site: Site, base: str, store: Store, conversation: Conversation, seen: str
) -> AsyncGenerator[bytes, None]:
    """Yield frames: `changed` as soon as the version is not *seen*, and the parts of the turn in progress."""
    page = _LivePage(site, base, seen)
    task = asyncio.create_task(page.follow(store, conversation))
    try:
        while not page.ended:
            await page.news.wait()
            await asyncio.sleep(_FRAME)
            for change in page.frames():
                yield frame(change)
    finally:
        task.cancel()
        await asyncio.wait([task])


class _LivePage:
    """The state of one open page: its turns, and the news that it has not been sent."""

    def __init__(self, site: Site, base: str, seen: str) -> None:
        self.news = asyncio.Event()
        self.ended = False
        self._site, self._base = site, base
        self._seen = self._version = seen
        self._title = ""
        self._turns: list[_LiveTurn] = []
        """The turn in progress, after those whose last parts are not sent yet."""

    async def follow(self, store: Store, conversation: Conversation) -> None:
        """Apply states and events as they come. Ends when the runtime is closed, or the conversation deleted."""
        try:
            async with aclosing(conversation.follow()) as items:
                async for position, item in items:
                    if isinstance(item, StoredConversation):
                        self._version, self._title = await version_of(store, conversation), item.title
                    else:
                        turn_id, _, number = position.rpartition(":")
                        if not self._turns or self._turns[-1].view.turn_id != turn_id:
                            self._turns.append(_LiveTurn(self._site, self._base, turn_id))
                        view = self._turns[-1].view
                        view.take(int(number), item)
                        if view.over and len(view.agents) > 1:
                            runs = await store.runs(conversation.scope, root_id=turn_id, limit=_RUNS)
                            view.settle({each.start.run_id: each.end.status for each in runs if each.end is not None})
                    self.news.set()
        except ConcertinoError:
            pass  # the browser connects again, and gets the error as an answer
        finally:
            self.ended = True
            self.news.set()

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield what is new."""
        self.news.clear()
        yield from (turn.frame() for turn in self._turns if turn.view.changed or turn.view.removed)
        del self._turns[:-1]
        if self._version != self._seen:
            self._seen = self._version
            yield {"changed": True, "title": self._title}


class _LiveTurn:
    """A turn in progress."""

    def __init__(self, site: Site, base: str, turn_id: str) -> None:
        self.view = TurnView(turn_id)
        self._parts = TurnParts(site, base, self.view)
        self._first = True

    def frame(self) -> dict[str, Any]:
        """Return what has changed since the last frame. The first one replaces all that the page has of this turn."""
        parts, removed = self._parts.draw()
        first, self._first = self._first, False
        return {
            "turn": self.view.turn_id,
            "whole": first,
            "parts": [[part.id, part.into, part.html] for part in parts],
            "removed": removed,
            "status": status_of(self.view),
            "over": self.view.over,
        }
