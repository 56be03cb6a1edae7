"""Parts that all routes share: the scope, the body, streams of server-sent events, and errors."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...errors import ConcertinoError
from ...runtime import Runtime
from ...scope import Scope
from ..error_form import FormedRoute, Handler, error_response
from ..event_source import EventSource, joined
from ..frames import frame
from ..json_body import json_body
from ..server_state import state_of
from .values import BadInputError, JsonObject

Items = Sequence[Mapping[str, Any] | str]
"""JSON objects, or texts that are sent as they are."""
BROKEN_OFF = "the answer goes on elsewhere: connect again"
"""The error of a stream that ends before its turn: the process ends, or cannot read the log."""


class ProtocolRoute(FormedRoute):
    """A route of a protocol. *form* makes the answer of an error, from its status and its text.

    Clients of the protocols expect status 400 for an invalid request.
    """

    def __init__(
        self, path: str, endpoint: Handler, form: Callable[[Exception, int, str], Response], *, methods: Sequence[str]
    ) -> None:
        def error_form(_: Request, error: Exception, status: int, text: str) -> Response:
            return form(error, 400 if status == 422 else status, text)

        async def handle(request: Request) -> Response:
            try:
                return await endpoint(request)
            except (ConcertinoError, HTTPException) as error:
                return error_response(request, error, error_form)

        super().__init__(path, handle, error_form, methods=methods)


def scope_of(request: Request) -> Scope:
    """Return the scope that the authentication of the application has set."""
    scope = request.state.scope
    assert isinstance(scope, Scope)
    return scope


def agents_of(request: Request, runtime: Runtime) -> Sequence[str]:
    """Return the names of the agents that users may talk to."""
    state = state_of(request)
    return [agent.name for agent in runtime.agents] if state is None else state.agents


def first_agent(request: Request, runtime: Runtime) -> str:
    """Return the default agent. Raises `HTTPException` with status 404 if there are no agents."""
    names = agents_of(request, runtime)
    if not names:
        raise HTTPException(404, "there is no agent")
    return names[0]


def counted(request: Request) -> AbstractContextManager[None]:
    """Count an answer that waits for a run among the streams of the scope. Raises `HTTPException`: status 429."""
    state = state_of(request)
    return nullcontext() if state is None else state.rates.stream(scope_of(request))


def check_streams(request: Request) -> None:
    """Raise `HTTPException` with status 429 if the scope may open no stream: before a message is sent for it."""
    if (state := state_of(request)) is not None:
        state.rates.check_streams(scope_of(request))


async def body_of(request: Request) -> JsonObject:
    """Return the body, a JSON object. Raises `BadInputError`, and `HTTPException` for another type of content."""
    sent = await json_body(request)
    try:
        body = json.loads(sent, parse_constant=_no_number, parse_float=_finite)
        if b"\\u" in sent:  # halves of a surrogate pair are no text, and cannot be stored
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadInputError("the body is not JSON") from error
    if not isinstance(body, dict):
        raise BadInputError("the body is not a JSON object")
    return body


def _no_number(name: str) -> float:
    """Refuse `NaN` and `Infinity`, which JSON does not have."""
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


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
    request: Request,
    items: AsyncGenerator[Items, None],
    headers: Mapping[str, str] | None = None,
) -> EventSource:
    """Return a response of server-sent events from *items*, several at once.

    When the client leaves, *items* is closed; the run goes on.
    """
    return EventSource(request, _frames(items), headers)


async def _frames(items: AsyncGenerator[Items, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(items):
        async for batch in items:
            for frames in joined([_frame(item) for item in batch]):
                yield frames


def _frame(item: Mapping[str, Any] | str) -> bytes:
    named = not isinstance(item, str) and "sequence_number" in item
    return frame(item, event=item["type"] if named else "")  # type: ignore[index]
