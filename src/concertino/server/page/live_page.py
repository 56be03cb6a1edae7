"""The stream of an open page: what changes in a conversation, and the turn in progress as HTML."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from ...errors import ConcertinoError
from ...ids import digest
from ...runtime import Conversation, ConversationTurn
from ...storage.conversation_types import StoredConversation
from .site import Site
from .turn_parts import TurnParts, status_of
from .turn_view import TurnView

_LOOK = 0.5
"""Seconds between two looks at the conversation, which another process may change."""
_FRAME = 0.05
"""Seconds in which events are collected: more frames than that nobody sees."""


class _Follower:
    """Applies the events of one turn to a view, in a task."""

    def __init__(self, site: Site, base: str, turn: ConversationTurn) -> None:
        self.view = TurnView(turn.id)
        self.parts = TurnParts(site, base, self.view)
        self.changed = asyncio.Event()
        self.first = True
        """Whether nothing was sent yet: then the first frame replaces what the page has of this turn."""
        self._task = asyncio.create_task(self._follow(turn))

    async def _follow(self, turn: ConversationTurn) -> None:
        with suppress(ConcertinoError):  # the turn was withdrawn, or its conversation deleted
            async with aclosing(turn.events()) as events:
                async for number, event in events:
                    self.view.take(number, event)
                    self.changed.set()
        self.changed.set()

    def frame(self) -> dict[str, Any]:
        """Return what has changed since the last frame."""
        self.changed.clear()
        parts, removed = self.parts.draw()
        first, self.first = self.first, False
        return {
            "turn": self.view.turn_id,
            "whole": first,
            "parts": [[part.id, part.into, part.html] for part in parts],
            "removed": removed,
            "status": status_of(self.view),
            "over": self.view.over,
        }

    async def close(self) -> None:
        """End the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def version_of(stored: StoredConversation) -> str:
    """Return a text that changes when a turn is added or ends, and when the branch or the title changes."""
    return digest(f"{stored.leaf} {stored.busy} {stored.updated} {stored.title}")


async def page_frames(site: Site, base: str, conversation: Conversation, seen: str) -> AsyncGenerator[bytes, None]:
    """Yield frames: `changed` as soon as the version is not *seen*, and the parts of the turn in progress."""
    follower: _Follower | None = None
    look = asyncio.get_running_loop().time
    looked = -_LOOK
    try:
        while True:
            if look() - looked >= _LOOK or (follower is not None and follower.view.over):
                looked = look()
                stored = await conversation.read()
                if (version := version_of(stored)) != seen:
                    seen = version
                    yield _encoded({"changed": True, "title": stored.title})
                if follower is not None and follower.view.turn_id != stored.busy:
                    yield _encoded(follower.frame())
                    await follower.close()
                    follower = None
                if follower is None and stored.busy:
                    follower = _Follower(site, base, await conversation.turn(stored.busy))
            if follower is not None and follower.changed.is_set():
                yield _encoded(follower.frame())
            await _wait(follower)
    finally:
        if follower is not None:
            await follower.close()


async def _wait(follower: _Follower | None) -> None:
    """Wait for events of the turn in progress, or until it is time to look at the conversation."""
    await asyncio.sleep(_FRAME)
    if follower is None or follower.view.over:
        await asyncio.sleep(_FRAME if follower is not None else _LOOK - _FRAME)
    else:
        with suppress(TimeoutError):
            await asyncio.wait_for(follower.changed.wait(), _LOOK)


def _encoded(frame: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(frame, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(errors="replace")
