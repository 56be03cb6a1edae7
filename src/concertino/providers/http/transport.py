"""Stream one request over HTTP: open, decode, read, and end with a reply or an error."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from ...errors import BrokenStreamError, ProviderError, ProviderTimeoutError
from ...messages import AssistantMessage, MessagePart, ToolCall
from ..base import (
    Dropped,
    ModelEvent,
    ModelRequest,
    OutputSchema,
    ReasoningChunk,
    Reply,
    TextChunk,
    ToolCallChunk,
    ToolCallReady,
)
from ..catalog import takes_schema
from ..errors import signing_error, signing_errors
from .body import WHOLE, BodyDecoder
from .encoding import RequestBody
from .reader import UNEXPECTED_SHAPE, AnswerReader, json_of, served_model
from .sse import SseEvent
from .time_limits import DEFAULT_DELTA, Deadline, Timeouts, timeouts

C = TypeVar("C")


class RawResponse(Protocol):
    """A response with its body unread."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives, with content encodings removed."""
        ...

    async def aclose(self) -> None:
        """Return the connection to its pool."""
        ...


class StreamingModel(ABC, Generic[C]):
    """A `Model` over a vendor's SDK, which serves as transport only; *C* is the SDK's client.

    A client's connections belong to an event loop, so each loop has its own client. A client that the caller passes in
    is used as it is and never closed here.
    """

    provider: str
    name: str
    summarizes = True

    def __init__(self, name: str, provider: str, client: C | None, timeout: float | Timeouts = DEFAULT_DELTA) -> None:
        self.name = name
        self.provider = provider
        self._limits = timeouts(timeout)
        self._given = client
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def takes_schema(self, schema: OutputSchema, *, tools: bool) -> bool:
        """Return whether the model accepts *schema* in a request with or without *tools*."""
        return takes_schema(self.name, tools=tools)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `Model.stream`."""
        body = self._body(request)
        if body.dropped:
            yield Dropped(body.dropped)
        answer = _Answer(self._reader(), self.provider, self.name)
        deadline = Deadline(self._limits, self.provider)
        response: RawResponse | None = None
        try:
            response = await deadline.wait(self._open(request, body.data), begun=False)
            pieces, decoder = _pieces(response), BodyDecoder(self.provider)
            piece: bytes | None = b""
            while piece is not None:
                piece = await deadline.wait(anext(pieces, None), begun=True)
                for event in decoder.close() if piece is None else decoder.feed(piece):
                    for item in answer.read(event):
                        yield item
        except self._expected as error:
            failure = self._failed(error, answer, begun=response is not None)
            if failure is error:
                raise
            if failure is not None:
                raise failure from error
        finally:
            deadline.close()
            if response is not None:
                await response.aclose()
        for item in answer.complete():
            yield item

    @property
    def _expected(self) -> tuple[type[Exception], ...]:
        return (ProviderError, *self._sdk_errors(), *signing_errors())

    def _failed(self, error: Exception, answer: _Answer, *, begun: bool) -> ProviderError | None:
        """Translate *error*; return None if the connection failed or fell silent behind a complete answer."""
        own = isinstance(error, ProviderError)
        if answer.ended and (not own or isinstance(error, ProviderTimeoutError)):
            return None
        if isinstance(error, ProviderError):
            failure = error
        elif isinstance(error, signing_errors()):
            failure = signing_error(error, self.provider)
        else:
            failure = self._translate(error, begun=begun)
        if begun:
            answer.annotate(failure)
        return failure

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
            # Connections of a closed loop can be neither used nor closed.
            self._clients = {other: kept for other, kept in self._clients.items() if not other.is_closed()}
            client = self._clients[loop] = self._connect()
        return client

    @abstractmethod
    def _connect(self) -> C:
        """Return a new client."""

    @abstractmethod
    async def _close(self, client: C) -> None:
        """Close a client that `_connect` returned."""

    @abstractmethod
    def _body(self, request: ModelRequest) -> RequestBody:
        """Encode *request*. Raises `UnsupportedError` if the model cannot take it."""

    @abstractmethod
    async def _open(self, request: ModelRequest, data: bytes) -> RawResponse:
        """Send *data*, the encoded *request*, and return once the response's headers have arrived."""

    @abstractmethod
    def _reader(self) -> AnswerReader:
        """Return a reader for one answer."""

    @abstractmethod
    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        """Return the base classes of the exceptions that the SDK and its HTTP library raise."""

    @abstractmethod
    def _translate(self, error: Exception, *, begun: bool) -> ProviderError:
        """Translate one of these exceptions; *begun* is true once the response's headers have arrived."""


class _Answer:
    """The answer to one request: its reader, the calls announced so far, and the errors it can end in."""

    __slots__ = ("_announced", "_doubtful", "_model", "_provider", "_reader")

    def __init__(self, reader: AnswerReader, provider: str, model: str) -> None:
        self._reader = reader
        self._provider = provider
        self._model = model
        self._announced: list[ToolCall] = []
        self._doubtful = False  # invalid UTF-8 arrived in an event that is neither text nor a piece of a call

    @property
    def ended(self) -> bool:
        return self._reader.ended

    def read(self, event: SseEvent) -> Sequence[ModelEvent]:
        """Return the chunks in *event*."""
        try:
            if event.name == WHOLE:
                items = self._reader.whole(json_of(event, self._provider))
            else:
                items = self._reader.read(event)
            for item in items:
                _check_item(item)
                if type(item) is ToolCallReady:
                    self._announced.append(item.call)
        except UNEXPECTED_SHAPE as error:
            raise BrokenStreamError(
                f"{self._provider} sent an event of unexpected form: {event.data[:200]}", provider=self._provider
            ) from error
        if event.damaged:
            self._check_damage(items)
        return items

    def complete(self) -> Sequence[ModelEvent]:
        """Return the calls that are still to be announced, then the reply."""
        try:
            reply = self._reader.reply()
            for part in reply.message.parts:
                _check_part(part)
            if self._doubtful and reply.message.tool_calls:
                raise self._damaged()
            return [*map(ToolCallReady, self._unannounced(reply)), reply]
        except ProviderError as error:
            self.annotate(error)
            raise
        except UNEXPECTED_SHAPE as error:
            broken = BrokenStreamError(f"{self._provider} sent an answer of unexpected form", provider=self._provider)
            self.annotate(broken)
            raise broken from error

    def annotate(self, error: ProviderError) -> None:
        """Add the received parts and the reported usage to *error*."""
        reader = self._reader
        try:
            parts = reader.partial()
            for part in parts:
                _check_part(part)
        except UNEXPECTED_SHAPE:
            parts = []
        error.sent = True
        error.partial = AssistantMessage(tuple(parts), "broken", served_model(reader) or self._model)
        if error.tokens is None:
            counted = reader.counted()
            error.tokens, error.final = counted.tokens, reader.ended and counted.source == "measured"
        with suppress(*UNEXPECTED_SHAPE):
            error.receipt = reader.receipt()

    def _check_damage(self, items: Sequence[ModelEvent]) -> None:
        """Raise `BrokenStreamError` if an event with invalid UTF-8 has a part of a call.

        In a text, U+FFFD replaces the damage and shows it; arguments would be executed as they are.
        """
        if any(isinstance(item, ToolCallChunk | ToolCallReady) for item in items):
            raise self._damaged()
        if not items or not all(isinstance(item, TextChunk | ReasoningChunk) for item in items):
            self._doubtful = True

    def _damaged(self) -> BrokenStreamError:
        return BrokenStreamError(f"{self._provider} sent a call with invalid UTF-8", provider=self._provider)

    def _unannounced(self, reply: Reply) -> list[ToolCall]:
        """Return the calls of *reply* that were not announced.

        Raises `BrokenStreamError` if the reply lacks an announced call, which may be running already.
        """
        left = list(reply.message.tool_calls)
        for call in self._announced:
            if call not in left:
                raise BrokenStreamError(
                    f"{self._provider} changed the call of {call.name} after it was complete", provider=self._provider
                )
            left.remove(call)
        # Their arguments are not whole JSON objects. The stop reason proves that nothing was cut off.
        return left if reply.message.stop_reason == "tool_calls" else []


_TEXTS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "reasoning": ("text",),
    "tool_call": ("id", "name", "arguments"),
    "opaque": ("type",),
}
"""The fields of a part that come from the provider and are texts, by the part's kind."""


def _check_item(item: ModelEvent) -> None:
    """Raise `TypeError` if a field of a chunk should be a text and is not: nothing behind the adapter expects that."""
    kind: Any = type(item)
    if kind is TextChunk or kind is ReasoningChunk:
        if type(item.text) is not str:  # type: ignore[union-attr]
            raise TypeError(f"the text is {item.text!r:.80}")  # type: ignore[union-attr]
    elif isinstance(item, ToolCallChunk):
        if not all(isinstance(value, str) for value in (item.id, item.name, item.arguments)):
            raise TypeError(f"the call is {item!r:.200}")
    elif isinstance(item, ToolCallReady):
        _check_part(item.call)


def _check_part(part: MessagePart) -> None:
    """Raise `TypeError` if a field of a part should be a text and is not."""
    if part.kind == "media":
        media = part.media
        texts, others = [media.media_type, media.name], [media.data, media.url, media.file_id]
    else:
        texts = [getattr(part, name) for name in _TEXTS[part.kind]]
        others = [getattr(part, name, None) for name in ("id", "signature")]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(o, str | None) for o in others):
        raise TypeError(f"the {part.kind} is {part!r:.200}")


def _pieces(response: Any) -> AsyncIterator[bytes]:
    """Iterate over the body of *response*.

    httpx's `aiter_bytes` adds two generators and a chunker to every piece. Without a content encoding its underlying
    stream yields the same bytes.
    """
    stream = getattr(response, "stream", None)
    if stream is not None and not response.headers.get("content-encoding"):
        return aiter(stream)
    return aiter(response.aiter_bytes())
