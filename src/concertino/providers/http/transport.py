"""The one way in which every HTTP adapter asks: open, decode, read, and always end with a reply or an error."""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from ...errors import BrokenStreamError, ContentFilteredError, MissingKeyError, ProviderError, ProviderTimeoutError
from ...messages import AssistantMessage, Part, StopReason, ToolCall
from ...usage import Tokens, UsageSource
from ..base import Dropped, ModelEvent, ModelRequest, Reply, ToolCallReady
from ..errors import signing_failure, signing_failures
from .body import WHOLE, BodyDecoder
from .encoding import Body
from .sse import Event
from .timeouts import SILENCE, Timeouts, Watch, timeouts

__all__ = ["SILENCE", "RawResponse", "Reader", "StreamingModel", "Timeouts", "finished", "key_from", "payload"]

C = TypeVar("C")
_UNKNOWN_FORM = (LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""What reading raises where something is of another type than it should be."""


class RawResponse(Protocol):
    """An answer whose body has not been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, as it comes, content encodings undone."""
        ...

    async def aclose(self) -> None:
        """Give the connection back."""
        ...


class Reader(Protocol):
    """Turns the events of one answer into pieces and, at the end, a reply.

    An answer that comes whole is read as the events that it would have been, so both forms have one meaning.
    """

    ended: bool
    """Whether the provider has said that the answer is complete."""

    def read(self, event: Event) -> Iterable[ModelEvent]:
        """The pieces in *event*. Raises a `ProviderError` if it reports one."""
        ...

    def whole(self, answer: Any) -> Iterable[ModelEvent]:
        """The pieces in *answer*, the JSON of an unstreamed answer. Raises a `ProviderError` if it reports one."""
        ...

    def partial(self) -> tuple[list[Part], str]:
        """What has come so far, and the model's name: text and reasoning as far as they go, calls that are complete."""
        ...

    def counted(self) -> Tokens | None:
        """What the provider has counted so far; None: nothing."""
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
    summarises = True

    def __init__(self, name: str, provider: str, client: C | None, timeout: float | Timeouts = SILENCE) -> None:
        self.name = name
        self.provider = provider
        self._limits = timeouts(timeout)
        self._given = client
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def _expected(self) -> tuple[type[Exception], ...]:
        return (ProviderError, *self._failures(), *signing_failures())

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:  # noqa: C901 - read it aloud
        """See `Model.stream`."""
        asked = self._body(request)
        if asked.dropped:
            yield Dropped(asked.dropped)
        reader = self._reader()
        ready: list[ToolCall] = []
        source: _Source | None = None
        watch = Watch(self._limits, self.provider)
        try:
            source = _Source(await watch.over(self._open(request, asked.data), begun=False), watch, self.provider)
            while (events := await source.next()) is not None:
                for event in events:
                    for item in self._read(reader, event, ready):
                        yield item
        except self._expected as error:
            failure = self._failed(error, reader, begun=source is not None)
            if failure is error:
                raise
            if failure is not None:
                raise failure from error
        finally:
            if source is not None:
                await source.response.aclose()
        try:
            reply = reader.reply()
            left = self._left(reply, ready)
        except ProviderError as error:
            self._note(error, reader)
            raise
        except _UNKNOWN_FORM as error:
            broken = BrokenStreamError(f"{self.provider} sent an answer of an unknown form", provider=self.provider)
            self._note(broken, reader)
            raise broken from error
        for call in left:
            yield ToolCallReady(call)
        yield reply

    def _failed(self, error: Exception, reader: Reader, *, begun: bool) -> ProviderError | None:
        """What *error* is in our words; None for a connection that broke, or fell silent, behind a complete answer."""
        ours = isinstance(error, ProviderError)
        if reader.ended and (not ours or isinstance(error, ProviderTimeoutError)):
            return None
        if isinstance(error, ProviderError):
            failure = error
        elif isinstance(error, signing_failures()):
            failure = signing_failure(error, self.provider)
        else:
            failure = self._translate(error, begun=begun)
        if begun:
            self._note(failure, reader)
        return failure

    def _read(self, reader: Reader, event: Event, ready: list[ToolCall]) -> Iterator[ModelEvent]:
        """The pieces in *event*; the calls announced among them join *ready*."""
        try:
            whole = event.name == WHOLE
            for item in reader.whole(_json(event, self.provider)) if whole else reader.read(event):
                if isinstance(item, ToolCallReady):
                    ready.append(item.call)
                yield item
        except _UNKNOWN_FORM as error:
            raise BrokenStreamError(
                f"{self.provider} sent an event of an unknown form: {event.data[:200]}", provider=self.provider
            ) from error

    def _note(self, error: ProviderError, reader: Reader) -> None:
        """Put into *error* what had come of the answer, and what the provider had counted of it."""
        try:
            parts, model = reader.partial()
        except _UNKNOWN_FORM:
            parts, model = [], ""
        error.partial = AssistantMessage(tuple(parts), "broken", model or self.name)
        if error.tokens is None:
            with suppress(*_UNKNOWN_FORM):
                error.tokens, error.final = reader.counted(), reader.ended

    def _left(self, reply: Reply, ready: list[ToolCall]) -> list[ToolCall]:
        """The complete calls of *reply* that are not yet in *ready*. Raises `BrokenStreamError` if it lacks one of
        *ready*: that call may be running already."""
        left = list(reply.message.tool_calls)
        for call in ready:
            if call not in left:
                raise BrokenStreamError(
                    f"{self.provider} changed the call of {call.name} after it was complete", provider=self.provider
                )
            left.remove(call)
        # What is left was never proven complete; that the model says it is done is the proof.
        return left if reply.message.stop_reason == "tool_calls" else []

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
    def _body(self, request: ModelRequest) -> Body:
        """*request* in the provider's form. Raises `UnsupportedError` for what the model cannot do."""

    @abstractmethod
    async def _open(self, request: ModelRequest, data: bytes) -> RawResponse:
        """Send *data*, which is *request*'s form; the answer has begun when this returns."""

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


class _Source:
    """The events of a response, as many at a time as have come."""

    __slots__ = ("_body", "_decoder", "_ended", "_watch", "response")

    def __init__(self, response: RawResponse, watch: Watch, provider: str) -> None:
        self.response = response
        self._body = aiter(response.aiter_bytes())
        self._decoder = BodyDecoder(provider)
        self._watch = watch
        self._ended = False

    async def next(self) -> list[Event] | None:
        """The next events; None at the end."""
        if self._ended:
            return None
        piece = await self._watch.over(self._piece(), begun=True)
        if piece is not None:
            return self._decoder.feed(piece)
        self._ended = True
        return self._decoder.close()

    async def _piece(self) -> bytes | None:
        try:
            return await anext(self._body)
        except StopAsyncIteration:
            return None


def payload(event: Event, provider: str) -> dict[str, Any]:
    """The object in an event's data. Raises `BrokenStreamError` if there is none."""
    data = _json(event, provider)
    if not isinstance(data, dict):
        raise BrokenStreamError(f"{provider} sent no object: {event.data[:80]!r}", provider=provider)
    return data


def _json(event: Event, provider: str) -> Any:
    try:
        return json.loads(event.data)
    except (ValueError, RecursionError) as error:
        raise BrokenStreamError(f"{provider} sent no JSON: {event.data[:80]!r}", provider=provider) from error


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
    Raises `ContentFilteredError` where a filter left nothing to use, with the tokens that it cost all the same; *why*
    is the provider's explanation.
    """
    calls = any(part.kind == "tool_call" for part in parts)
    if stop == "filter" and not calls and not any(part.kind == "text" and part.text for part in parts):
        message = f"a filter of {provider} held back the answer" + (f": {why}" if why else "")
        filtered = ContentFilteredError(message, provider=provider)
        filtered.tokens, filtered.final = tokens, True
        raise filtered
    if calls and stop == "end":
        stop = "tool_calls"
    source: UsageSource = "unknown" if tokens is None else "measured"
    return Reply(AssistantMessage(tuple(parts), stop, model), tokens, source)
