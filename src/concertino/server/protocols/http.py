"""Parts that all routes share: the scope, the body, streams of server-sent events, and the status of an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from ...errors import (
    ConcertinoError,
    ConfigurationError,
    ConversationBusyError,
    ErasedError,
    NotAllowedError,
    RunStateError,
    UnknownConversationError,
    UnknownRunError,
    UnknownTurnError,
    UnknownWaitError,
)
from ...scope import Scope
from .values import BadInputError, JsonObject

PING = 15.0
"""Seconds without data after which a stream sends a comment, so that no proxy closes it."""
STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_STATUS: tuple[tuple[type[ConcertinoError], int], ...] = (
    (UnknownConversationError, 404),
    (UnknownTurnError, 404),
    (UnknownRunError, 404),
    (UnknownWaitError, 404),
    (NotAllowedError, 403),
    (ErasedError, 410),
    (ConversationBusyError, 409),
    (RunStateError, 409),
    (ConfigurationError, 400),
)


def status_of(error: ConcertinoError) -> int:
    """Return the HTTP status of an error; 500 if the request did not cause it."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def message_of(error: ConcertinoError) -> str:
    """Return the text of an error for the user: an error of the server itself is masked."""
    return str(error) if status_of(error) < 500 else "the server failed"


def scope_of(request: Request) -> Scope:
    """Return the scope that the authentication of the application has set."""
    scope = request.state.scope
    assert isinstance(scope, Scope)
    return scope


async def body_of(request: Request) -> JsonObject:
    """Return the body, a JSON object. Raises `BadInputError`."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise BadInputError("the body is not JSON") from error
    if not isinstance(body, dict):
        raise BadInputError("the body is not a JSON object")
    return body


def text_field(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a field that must be text. Raises `BadInputError`."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise BadInputError(f"{name!r} is missing, or is not text")
    return value


def objects(body: Mapping[str, Any], name: str) -> list[JsonObject]:
    """Return a field that must be an array of objects; it may be missing. Raises `BadInputError`."""
    value = body.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BadInputError(f"{name!r} is not an array of objects")
    return value


def event_stream(
    frames: AsyncGenerator[Mapping[str, Any] | str, None], headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """Return a response of server-sent events. A frame is a JSON object, or text as it is.

    When the client leaves, *frames* is closed; the run goes on.
    """
    sent = {**STREAM_HEADERS, **(headers or {})}
    return StreamingResponse(_encoded(frames), headers=sent, media_type="text/event-stream")


async def _encoded(frames: AsyncGenerator[Mapping[str, Any] | str, None]) -> AsyncIterator[bytes]:
    async with aclosing(frames):
        following: asyncio.Future[Mapping[str, Any] | str] = asyncio.ensure_future(anext(frames))
        try:
            while True:
                done, _ = await asyncio.wait([following], timeout=PING)
                if not done:
                    yield b": ping\n\n"
                    continue
                yield sse(following.result()).encode(errors="replace")
                following = asyncio.ensure_future(anext(frames))
        except StopAsyncIteration:
            return
        finally:
            if following.cancel():
                await asyncio.wait([following])


def sse(frame: Mapping[str, Any] | str) -> str:
    """Return one server-sent event. Lines end with LF, the only end that every client accepts."""
    if isinstance(frame, str):
        return f"data: {frame}\n\n"
    event = f"event: {frame['type']}\n" if "sequence_number" in frame else ""
    return f"{event}data: {json.dumps(frame, ensure_ascii=False, separators=(',', ':'))}\n\n"
