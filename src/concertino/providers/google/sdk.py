"""The SDK as transport: address, authentication, pool. Importing this module imports the SDK.

The SDK has no door for finished requests and unread answers, but it takes an HTTP client of one's own
(`HttpOptions.httpx_async_client`). `_Tap` is one: it sends our bytes in place of the SDK's and keeps the response for
us, while the SDK is told of an empty one. So its walks over the history and its objects, 230 µs for each chunk, are
spared, and what it does not know is not lost.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2
from google import genai
from google.genai import types

from ..http.transport import RawResponse

_PLACEHOLDER = types.Content()
"""The contents that the SDK is given; they are replaced before anything is sent."""

_POOL = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
"""As the SDKs of Anthropic and OpenAI have it: each answer that is being streamed holds a connection."""


@dataclass(slots=True)
class _Call:
    """What goes in place of the SDK's body, and the response once it is there."""

    data: bytes
    stream: bool
    response: httpx2.Response | None = None


_CALL: ContextVar[_Call] = ContextVar("concertino_google_call")


class _Tap(httpx2.AsyncClient):
    """Sends the running call's own bytes and keeps its response; one that reports an error goes to the SDK."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        call = _CALL.get()
        headers = request.headers.copy()
        del headers["content-length"]
        # Not with the SDK's time limit, which is one for the whole answer and would be sent to the server.
        limits = {"timeout": self.timeout.as_dict()}
        own = httpx2.Request(request.method, request.url, headers=headers, content=call.data, extensions=limits)
        response = await super().send(own, **{**options, "stream": True})
        if response.status_code != 200:
            await response.aread()
            return response
        call.response = response
        kind, nothing = ("text/event-stream", b"") if call.stream else ("application/json", b"{}")
        return httpx2.Response(200, request=own, headers={"content-type": kind}, content=nothing)


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of the SDK and the HTTP client below it; None for a client that was given."""

    client: genai.Client
    tap: _Tap | None = None

    async def close(self) -> None:
        """Close both."""
        await self.client.aio.aclose()
        self.client.close()
        if self.tap is not None:
            await self.tap.aclose()


def connect(key: str, base_url: str | None, limit: float) -> Connection:
    """A client that sends nothing twice and may take *limit* seconds until a connection stands; all other limits are
    kept by whoever waits for it."""
    tap = _Tap(follow_redirects=True, timeout=httpx2.Timeout(None, connect=limit, pool=limit), limits=_POOL)
    options = types.HttpOptions(base_url=base_url, httpx_async_client=tap)
    return Connection(genai.Client(api_key=key, vertexai=False, http_options=options), tap)


async def send(connection: Connection, model: str, data: bytes, *, stream: bool) -> RawResponse:
    """Post *data*; the response's body is not read yet."""
    if connection.tap is None:
        return await _send_objects(connection.client, model, data, stream=stream)
    call = _Call(data, stream)
    token = _CALL.set(call)
    try:
        # Without a config, whose copies and walks take longer than all else that the SDK does. It would go on by itself
        # only from an answer's token, and the answer that it is shown has none.
        models = connection.client.aio.models
        if stream:
            async for _ in await models.generate_content_stream(model=model, contents=_PLACEHOLDER):
                pass
        else:
            await models.generate_content(model=model, contents=_PLACEHOLDER)
    finally:
        _CALL.reset(token)
    assert call.response is not None
    return call.response


async def _send_objects(client: genai.Client, model: str, data: bytes, *, stream: bool) -> RawResponse:
    """The same over a client of the user's own making, whose HTTP client cannot be replaced: through its objects."""
    options = types.HttpOptions(extra_body=json.loads(data))
    config = types.GenerateContentConfig(automatic_continuation=False, http_options=options)
    models = client.aio.models
    if stream:
        return _Objects(await models.generate_content_stream(model=model, contents=_PLACEHOLDER, config=config))
    return _Objects(_once(await models.generate_content(model=model, contents=_PLACEHOLDER, config=config)))


async def _once(answer: types.GenerateContentResponse) -> AsyncIterator[types.GenerateContentResponse]:
    yield answer


class _Objects:
    """The SDK's chunks as the events that they were read from."""

    def __init__(self, stream: AsyncIterator[types.GenerateContentResponse]) -> None:
        self._stream = stream

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """See `RawResponse.aiter_bytes`."""
        async for chunk in self._stream:
            text = chunk.model_dump_json(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
            yield f"data: {text}\n\n".encode()

    async def aclose(self) -> None:
        """See `RawResponse.aclose`."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()
