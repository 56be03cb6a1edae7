"""The one way in which every HTTP adapter asks: open, decode, read, and always end with a reply or an error."""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from typing import Any, Generic, Protocol, TypeVar

from ..errors import BrokenStreamError, ContentFilteredError, MissingKeyError, ProviderError
from ..messages import AssistantMessage, Part, StopReason
from ..usage import Tokens, UsageSource
from .port import ModelEvent, ModelRequest, Reply
from .sse import Event, SseDecoder

C = TypeVar("C")

SILENCE = 300.0
"""How many seconds a provider may be silent before its request counts as lost. Reasoning models are silent long."""


class RawResponse(Protocol):
    """An answer whose body has not been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, as it comes, content encodings undone."""
        ...

    async def aclose(self) -> None:
        """Give the connection back."""
        ...


class Reader(Protocol):
    """Turns the events of one answer into pieces and, at the end, a reply."""

    ended: bool
    """Whether the provider has said that the answer is complete."""

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """The pieces in *event*. Raises a `ProviderError` if it reports one."""
        ...

    def reply(self) -> Reply:
        """The whole answer. Raises `BrokenStreamError` if it is not complete, `ContentFilteredError` if it is empty
        because of a filter."""
        ...


class StreamingModel(ABC, Generic[C]):
    """A `Model` over a vendor's SDK, which is its transport only; *C* is the SDK's client.

    A client is bound to an event loop by its connections, so one is kept for each loop that asks. A client that was
    given is used as it is and never closed here.
    """

    provider: str
    name: str

    def __init__(self, name: str, provider: str, client: C | None) -> None:
        self.name = name
        self.provider = provider
        self._given = client
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `Model.stream`."""
        reader = self._reader()
        response: RawResponse | None = None
        try:
            response = await self._open(request)
            decoder = SseDecoder()
            async for piece in response.aiter_bytes():
                for event in decoder.feed(piece):
                    for item in self._read(reader, event):
                        yield item
            for event in decoder.close():
                for item in self._read(reader, event):
                    yield item
        except self._failures() as error:
            # A connection that breaks after the answer is complete takes nothing away from it.
            if not reader.ended:
                raise self._translate(error, begun=response is not None) from error
        finally:
            if response is not None:
                await response.aclose()
        yield reader.reply()

    def _read(self, reader: Reader, event: Event) -> Iterable[ModelEvent]:
        try:
            return reader.read(event)
        except (LookupError, TypeError, AttributeError) as error:
            raise BrokenStreamError(
                f"{self.provider} sent an event of an unknown form: {event.data[:200]}", provider=self.provider
            ) from error

    async def close(self) -> None:
        """See `Model.close`. Closes the client of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._close(client)

    def _client(self) -> C:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # The connections of a loop that is over can neither be used nor closed any more.
            self._clients = {old: kept for old, kept in self._clients.items() if not old.is_closed()}
            client = self._clients[loop] = self._connect()
        return client

    @abstractmethod
    def _connect(self) -> C:
        """A new client."""

    @abstractmethod
    async def _close(self, client: C) -> None:
        """Close a client that `_connect` made."""

    @abstractmethod
    async def _open(self, request: ModelRequest) -> RawResponse:
        """Send *request*; the answer has begun when this returns."""

    @abstractmethod
    def _reader(self) -> Reader:
        """A reader for one answer."""

    @abstractmethod
    def _failures(self) -> tuple[type[Exception], ...]:
        """What the SDK and its HTTP library raise."""

    @abstractmethod
    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        """One of these failures in our words; *begun* says whether the answer had begun."""


def key_from(given: str | None, *names: str) -> str:
    """*given*, or the first of the environment variables *names* that is set.

    Raises `MissingKeyError`, naming them.
    """
    for value in (given, *map(os.environ.get, names)):
        if value:
            return value
    raise MissingKeyError(f"no API key: set {' or '.join(names)}, or pass api_key=")


def payload(event: Event, provider: str) -> dict[str, Any]:
    """The object in an event's data. Raises `BrokenStreamError` if there is none."""
    try:
        data = json.loads(event.data)
    except ValueError as error:
        raise BrokenStreamError(f"{provider} sent no JSON: {event.data[:80]!r}", provider=provider) from error
    if not isinstance(data, dict):
        raise BrokenStreamError(f"{provider} sent no object: {event.data[:80]!r}", provider=provider)
    return data


def finished(
    provider: str,
    parts: list[Part],
    stop: StopReason,
    model: str,
    tokens: Tokens | None,
    why: str = "",
) -> Reply:
    """The reply of a complete answer.

    Calls make it a turn with calls whatever the provider's word for its end is: forced calls end in "stop" with some.
    Raises `ContentFilteredError` where a filter left nothing to use; *why* is the provider's explanation.
    """
    calls = any(part.kind == "tool_call" for part in parts)
    if stop == "filter" and not calls and not any(part.kind == "text" and part.text for part in parts):
        message = f"a filter of {provider} held back the answer" + (f": {why}" if why else "")
        raise ContentFilteredError(message, provider=provider)
    if calls and stop == "end":
        stop = "tool_calls"
    source: UsageSource = "unknown" if tokens is None else "measured"
    return Reply(AssistantMessage(tuple(parts), stop, model), tokens, source)
