"""The stream of an open page: whether the conversation has changed, and the turn in progress as HTML."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from ...errors import ConcertinoError
from ...ids import digest
from ...runtime import Conversation
from ...storage.conversation_types import StoredConversation
from .site import Site
from .turn_parts import TurnParts, status_of
from .turn_view import TurnView

_FRAME = 0.05
"""Seconds in which events are collected: a reader sees no difference."""


def version_of(stored: StoredConversation) -> str:
    """Return a text that changes when a turn is added or ends, and when the branch or the title changes."""
    return digest(f"{stored.leaf} {stored.busy} {stored.updated} {stored.title}")


async def page_frames(site: Site, base: str, conversation: Conversation, seen: str) -> AsyncGenerator[bytes, None]:
    """Yield frames: `changed` as soon as the version is not *seen*, and the parts of the turn in progress."""
    page = _LivePage(site, base, seen)
    task = asyncio.create_task(page.follow(conversation))
    try:
        while not page.ended:
            await page.news.wait()
            await asyncio.sleep(_FRAME)
            for frame in page.frames():
                yield f"data: {json.dumps(frame, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(
                    errors="replace"
                )
    finally:
        task.cancel()
        await asyncio.wait([task])


class _LivePage:
    """What one open page has been sent, and what is new."""

    def __init__(self, site: Site, base: str, seen: str) -> None:
        self.news = asyncio.Event()
        self.ended = False
        self._site, self._base, self._seen = site, base, seen
        self._stored: StoredConversation | None = None
        self._turns: list[_LiveTurn] = []
        """The turn in progress, after those whose last parts are not sent yet."""

    async def follow(self, conversation: Conversation) -> None:
        """Apply states and events as they come. Ends when the runtime is closed, or the conversation deleted."""
        try:
            async with aclosing(conversation.follow()) as items:
                async for position, item in items:
                    if isinstance(item, StoredConversation):
                        self._stored = item
                    else:
                        turn_id, _, number = position.rpartition(":")
                        if not self._turns or self._turns[-1].view.turn_id != turn_id:
                            self._turns.append(_LiveTurn(self._site, self._base, turn_id))
                        self._turns[-1].view.take(int(number), item)
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
        if self._stored is not None and (version := version_of(self._stored)) != self._seen:
            self._seen = version
            yield {"changed": True, "title": self._stored.title}


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
