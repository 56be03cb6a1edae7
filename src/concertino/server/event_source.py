"""Streams of server-sent events, of the API and of all protocols."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from ..errors import ConcertinoError
from ..events import RunEvent
from .frames import EventFrames
from .server_state import Closing, ServerState, state_of

log = logging.getLogger("concertino")

LogEvents = Sequence[tuple[int, RunEvent]]
"""Events with their numbers, in order, that are there at the same time."""
KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent, so that no proxy takes the stream for dead."""
FLUSH = 1.0
"""Seconds that a client has for the last frames when the server closes."""
_BURST = 4
"""Writes after which others may work: the loss of the connection, too, is noticed only then."""
_WRITE = 2**12
"""Bytes after which the frames of a batch are sent."""
EVENT_STREAM = ("text/event-stream",)
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def event_frames(batches: AsyncGenerator[LogEvents, None]) -> AsyncGenerator[bytes, None]:
    """Yield the frames of numbered events, without texts for developers; small ones of one batch together."""
    encode = EventFrames().frame
    async with until_failure(batches):
        async for batch in batches:
            for frames in joined([encode(number, event) for number, event in batch if is_shown(event)]):
                yield frames
            del batch  # as in `one_by_one`


def joined(frames: Sequence[bytes]) -> Iterator[bytes]:
    """Yield *frames* in pieces of about `_WRITE` bytes: each write to a connection costs as much as a few frames."""
    if len(frames) == 1:
        yield frames[0]
        return
    first = size = 0
    for at, each in enumerate(frames, 1):
        size += len(each)
        if size >= _WRITE or at == len(frames):
            yield b"".join(frames[first:at])
            first, size = at, 0


@asynccontextmanager
async def until_failure(items: AsyncGenerator[Any, None]) -> AsyncGenerator[None, None]:
    """Close *items* after the `with` block. A failure ends the block: the client connects again, and gets the error."""
    async with aclosing(items):
        try:
            yield
        except ConcertinoError as error:
            log.info("a stream ended: %s: %s", type(error).__name__, error)


def is_shown(event: RunEvent) -> bool:
    """Return whether *event* is for users, and not a text for developers."""
    return getattr(event, "audience", "answer") != "internal"


class EventSource(Response):
    """A stream of server-sent events to one client.

    A reader that is slow blocks its own stream only: *frames* is not read further than the connection takes. The stream
    ends with *frames*, *seconds* after its start, or when the server closes: then *frames* must end, too, and the
    client may reconnect to another process. In an application of `create_app`, it counts among the streams of the
    scope. Raises `HTTPException` with status 429 if too many are open.
    """

    media_type = EVENT_STREAM[0]

    def __init__(
        self,
        request: Request,
        frames: AsyncGenerator[bytes, None],
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = math.inf,
    ) -> None:
        super().__init__(headers={**_HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._frames = frames
        state: ServerState | None = state_of(request)
        self._closing = Closing() if state is None else state.closing
        self._counted = nullcontext() if state is None else state.rates.stream(request.state.scope)
        self._seconds = seconds
        self._sent = 0

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Send the frames until they end, the client leaves, or the server closes."""
        async with aclosing(self._frames):
            with self._counted:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                if scope["method"] == "HEAD" or await self._until_first(receive, send):
                    with suppress(TimeoutError):  # a client that does not read: its connection is cut
                        async with asyncio.timeout(FLUSH):
                            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_first(self, receive: Receive, send: Send) -> bool:
        """Send frames until one of the three ends. Return whether the client is still there."""
        watchers = (self._forward(send), _left(receive), self._keep_alive(send))
        forward, left, _ = tasks = [asyncio.create_task(each) for each in watchers]
        closing = self._closing.future()
        try:
            done, _ = await asyncio.wait([*tasks, closing], return_when=asyncio.FIRST_COMPLETED)
            if self._closing.is_set() and left not in done:
                done, _ = await asyncio.wait([forward, left], timeout=FLUSH, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for each in done:
            each.result()  # raises what has ended it
        return left not in done

    async def _keep_alive(self, send: Send) -> None:
        """Send a comment after each pause, until the time of the stream is over: all that an idle stream costs."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        while (left := end - loop.time()) > 0:
            before = self._sent
            await asyncio.sleep(min(KEEP_ALIVE, left))
            if self._sent == before and left > KEEP_ALIVE:
                await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})

    async def _forward(self, send: Send) -> None:
        async for each in self._frames:
            await send({"type": "http.response.body", "body": each, "more_body": True})
            self._sent += 1
            if not self._sent % _BURST:
                await asyncio.sleep(0)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
