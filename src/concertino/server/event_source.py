"""Streams of server-sent events: one frame per event of a run, numbered as in the log."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from ..errors import ConcertinoError
from ..events import RunEvent, event_json

log = logging.getLogger("concertino")

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent, so that no proxy takes the stream for dead."""
EVENT_STREAM = ("text/event-stream",)
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


async def event_frames(events: AsyncGenerator[tuple[int, RunEvent], None]) -> AsyncGenerator[bytes, None]:
    """Yield the frames of numbered events, without texts for developers."""
    async with aclosing(events):
        async for number, event in events:
            if is_shown(event):
                yield event_frame(number, event)


def is_shown(event: RunEvent) -> bool:
    """Return whether *event* is for users, and not a text for developers."""
    return getattr(event, "audience", "answer") != "internal"


def event_frame(position: int | str, event: RunEvent) -> bytes:
    """Return the frame of an event, whose `id` is its position."""
    return f"id: {position}\ndata: {_JSON.encode(event_json(event))}\n\n".encode(errors="replace")


class EventSource(Response):
    """A stream of server-sent events.

    A reader that is slow blocks its own stream only: *frames* is not read further than the connection takes. The stream
    ends when *closing* is set, or *seconds* after its start, and then the client may reconnect to any process.
    *counted* is entered while it is open.
    """

    media_type = EVENT_STREAM[0]

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        closing: asyncio.Event,
        counted: AbstractContextManager[None] | None = None,
        seconds: float = math.inf,
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self._closing = closing
        self._counted = counted or nullcontext()
        self._seconds = seconds
        self._sent = 0

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Send the frames until they end, the client leaves, or the server closes."""
        with self._counted:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            watchers = (self._forward(send), _left(receive), self._closing.wait())
            if await self._until_first(watchers, send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_first(self, watchers: tuple[Coroutine[Any, Any, Any], ...], send: Send) -> bool:
        """Run *watchers* until one of them ends. Return whether the client is still there."""
        forward, left, *_ = tasks = [asyncio.create_task(each) for each in watchers]
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        try:
            while True:
                before, seconds = self._sent, min(KEEP_ALIVE, end - loop.time())
                done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if done or loop.time() >= end:
                    break
                if self._sent == before:
                    await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if forward in done:
            forward.result()
        return left not in done

    async def _forward(self, send: Send) -> None:
        try:
            async with aclosing(self._frames) as frames:
                async for frame in frames:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
                    self._sent += 1
        except ConcertinoError as error:  # the client reconnects, and gets the error as an answer
            log.info("a stream ended: %s: %s", type(error).__name__, error)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
