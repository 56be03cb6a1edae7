"""Google's SDK as transport: address, authentication and connection pool. Importing this module loads the SDK.

The SDK has no method for finished requests and unread responses, but it accepts an HTTP client
(`HttpOptions.httpx_async_client`). `_BypassClient` is one: it sends our bytes instead of the SDK's and keeps the
response for us, while the SDK sees an empty one. This avoids the SDK's walk over the history and its objects, 230 µs
for each chunk, and keeps fields that the SDK does not know.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from typing import Any

import httpx2
from google import genai
from google.genai import types

from ...records import record
from ..http.transport import RawResponse

_PLACEHOLDER = types.Content()
"""The contents passed to the SDK, which are replaced before anything is sent."""

_POOL = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
"""The limits of Anthropic's and OpenAI's SDKs: each streamed answer occupies a connection."""


@record(frozen=False)
class _Exchange:
    """The bytes to send instead of the SDK's body, and the response once it has begun."""

    data: bytes
    headers: Mapping[str, str]
    stream: bool
    response: httpx2.Response | None = None


_EXCHANGE: ContextVar[_Exchange] = ContextVar("concertino_google_exchange")


class _BypassClient(httpx2.AsyncClient):
    """Sends the running exchange's bytes and keeps its response; the SDK sees error responses only."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = _EXCHANGE.get()
        headers = request.headers.copy()
        del headers["content-length"]
        headers.update(exchange.headers)
        # The SDK's own time limit would apply to the whole answer and be sent to the server.
        limits = {"timeout": self.timeout.as_dict()}
        own = httpx2.Request(request.method, request.url, headers=headers, content=exchange.data, extensions=limits)
        response = await self._send_within_origin(own, {**options, "stream": True, "follow_redirects": False})
        if response.status_code != 200:
            await response.aread()
            return response
        exchange.response = response
        kind, nothing = ("text/event-stream", b"") if exchange.stream else ("application/json", b"{}")
        return httpx2.Response(200, request=own, headers={"content-type": kind}, content=nothing)

    async def _send_within_origin(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        # httpx strips `Authorization` from a redirect to another origin, but not Google's `x-goog-api-key`.
        for _ in range(self.max_redirects):
            response = await super().send(request, **options)
            target = response.next_request
            if target is None or _origin(target.url) != _origin(request.url):
                return response
            await response.aclose()
            request = target
        raise httpx2.TooManyRedirects("exceeded the maximum number of redirects", request=request)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@record
class SdkConnection:
    """A client of the SDK and the HTTP client below it; `bypass` is None for a client that the caller passed in."""

    client: genai.Client
    bypass: _BypassClient | None = None

    async def post(self, model: str, data: bytes, headers: Mapping[str, str], *, stream: bool) -> RawResponse:
        """Post *data* with further *headers* and return the response with its body unread."""
        if self.bypass is None:
            return await _post_objects(self.client, model, data, headers, stream=stream)
        exchange = _Exchange(data, headers, stream)
        token = _EXCHANGE.set(exchange)
        try:
            # A config costs more in copies and walks than everything else that the SDK does. Without one, the SDK would
            # continue an answer by itself only if it saw a continuation token, and it sees an empty answer.
            models = self.client.aio.models
            if stream:
                async for _ in await models.generate_content_stream(model=model, contents=_PLACEHOLDER):
                    pass
            else:
                await models.generate_content(model=model, contents=_PLACEHOLDER)
        finally:
            _EXCHANGE.reset(token)
        assert exchange.response is not None
        return exchange.response

    async def close(self) -> None:
        """Close both clients."""
        await self.client.aio.aclose()
        self.client.close()
        if self.bypass is not None:
            await self.bypass.aclose()


def connect(key: str, base_url: str | None, timeout: float) -> SdkConnection:
    """Return a client that never retries; *timeout* limits connecting only, since `Deadline` limits the rest."""
    bypass = _BypassClient(timeout=httpx2.Timeout(None, connect=timeout, pool=timeout), limits=_POOL)
    options = types.HttpOptions(base_url=base_url, httpx_async_client=bypass)
    return SdkConnection(genai.Client(api_key=key, vertexai=False, http_options=options), bypass)


async def _post_objects(
    client: genai.Client, model: str, data: bytes, headers: Mapping[str, str], *, stream: bool
) -> RawResponse:
    """Post through the objects of a client whose HTTP client cannot be replaced."""
    options = types.HttpOptions(extra_body=json.loads(data), headers=dict(headers) or None)
    config = types.GenerateContentConfig(automatic_continuation=False, http_options=options)
    models = client.aio.models
    if stream:
        return _Objects(await models.generate_content_stream(model=model, contents=_PLACEHOLDER, config=config))
    return _Objects(_once(await models.generate_content(model=model, contents=_PLACEHOLDER, config=config)))


async def _once(answer: types.GenerateContentResponse) -> AsyncIterator[types.GenerateContentResponse]:
    yield answer


class _Objects:
    """The SDK's chunks, encoded again as the events that they were read from."""

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
