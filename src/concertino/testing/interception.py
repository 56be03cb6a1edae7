"""Interception of HTTP requests between httpx2's asynchronous clients and the network. Importing this imports httpx2.

All three SDKs, for every cloud, send through `httpx2.AsyncHTTPTransport`. Replacing its method there needs no access to
the client that a product creates.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

import httpx2

from .case import CANCELLED, CLOSED, Case, CassetteError, Cut, Headers, Interaction, Request, Response
from .comparison import difference
from .redaction import Redaction

Cuts = Literal["events", "bytes"] | int
Match = Literal["order", "content", "none"]
Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]

_TRANSFER_HEADERS = {"content-encoding", "content-length", "transfer-encoding", "connection"}
"""Headers about the transfer of the body, which is recorded decoded and in one piece."""


class Tape(Protocol):
    """A handler of intercepted requests."""

    async def handle(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Return the response to *request*; *send* sends it over the network."""
        ...


_active: list[Tape] = []
"""The tape of the running block, if any. Module state, because the patched transport class is shared by the process."""


@contextmanager
def intercept(tape: Tape, passing: Collection[str]) -> Iterator[None]:
    """Let *tape* answer all requests except those to the hosts *passing*.

    Raises `CassetteError` if another block records or replays.
    """
    if _active:
        raise CassetteError("another cassette is active; only one block can record or replay at a time")
    transport = httpx2.AsyncHTTPTransport
    real = transport.handle_async_request

    async def handle(self: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        if request.url.host in passing:
            return await real(self, request)
        return await tape.handle(request, lambda request: real(self, request))

    _active.append(tape)
    transport.handle_async_request = handle  # type: ignore[method-assign]
    try:
        yield
    finally:
        transport.handle_async_request = real  # type: ignore[method-assign]
        _active.remove(tape)


class Recorder:
    """Record requests and responses without secrets. Responses are still streamed piece by piece."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._passed: list[tuple[Request, _Passing]] = []

    async def handle(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send *request* and record the response; see `Tape`."""
        asked = _asked(request, await request.aread())
        passing = _Passing()
        self._passed.append((asked, passing))
        with passing.watched():
            passing.response = await send(request)
        assert isinstance(passing.response.stream, httpx2.AsyncByteStream)
        passing.response.stream = _Tee(passing.response.stream, passing)
        return passing.response

    @property
    def interactions(self) -> list[Interaction]:
        """The interactions so far, redacted."""
        redaction = self._redaction
        found = []
        for asked, passing in self._passed:
            request = Request(
                method=asked.method,
                host=redaction.host(asked.host),
                path=redaction.path(asked.path),
                headers=redaction.headers(asked.headers),
                body=redaction.body(asked.body or b""),
            )
            response, cut = passing.ended()
            if response is not None:
                response.headers = redaction.headers(response.headers)
                response.body = redaction.body(response.body)
            if cut is not None:
                cut = Cut(cut.error, redaction.text(cut.message))
            found.append(Interaction(request=request, response=response, cut=cut))
        return found


class _Passing:
    """A response in transit; *cut* is None once it is complete."""

    def __init__(self) -> None:
        self.response: httpx2.Response | None = None
        self.pieces: list[bytes] = []
        self.cut: Cut | None = Cut(CLOSED)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record the exception of the block as the reason for the cut."""
        try:
            yield
        except asyncio.CancelledError:
            self.cut = Cut(CANCELLED)
            raise
        except Exception as error:
            self.cut = Cut(type(error).__name__, str(error))
            raise

    def ended(self) -> tuple[Response | None, Cut | None]:
        """Return the decoded response as far as it arrived, and why it was cut."""
        response = self.response
        if response is None:
            return None, self.cut
        body, cut = b"".join(self.pieces), self.cut
        encoding = response.headers.get("content-encoding")
        if encoding:
            try:
                body = httpx2.Response(200, headers={"content-encoding": encoding}, content=body).content
            except httpx2.DecodingError as error:
                body, cut = b"", cut or Cut("DecodingError", str(error))
        return Response(status=response.status_code, headers=list(response.headers.multi_items()), body=body), cut


class _Tee(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, passing: _Passing) -> None:
        self._stream = stream
        self._passing = passing

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._passing.watched():
            async for piece in self._stream:
                self._passing.pieces.append(piece)
                yield piece
            self._passing.cut = None

    async def aclose(self) -> None:
        await self._stream.aclose()


class Player:
    """Answer requests from a recording. After a mismatch, `problem` explains it and every request is rejected."""

    def __init__(self, case: Case, *, match: Match, ignored: Collection[str], cuts: Cuts) -> None:
        self.interactions: list[Interaction] = []
        self.left = list(enumerate(case.interactions, 1))
        self.problem = ""
        self._case = case
        self._match = match
        self._ignored = ignored
        self._cuts = cuts

    async def handle(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Answer *request* from the recording; see `Tape`."""
        found = None if self.problem else self._take(_asked(request, await request.aread()))
        if found is None:
            # A status that no adapter retries, with a body that all of them can parse.
            error = {"type": "invalid_request_error", "status": "INVALID_ARGUMENT", "code": 400}
            return httpx2.Response(400, json={"error": error | {"message": self.problem}})
        self.interactions.append(found)
        await asyncio.sleep(0)  # let other tasks run, as network I/O would
        if found.response is None:
            raise _error(found.cut)
        return httpx2.Response(
            found.response.status,
            headers=_headers(found.response),
            stream=_Played(_pieces(found.response.body, self._cuts), found.cut),
        )

    def _take(self, asked: Request) -> Interaction | None:
        number = len(self.interactions) + 1
        what = f"request {number} ({asked.method} {asked.path.partition('?')[0]})"
        if not self.left:
            why = "" if self._case.complete else f"; it is incomplete, because its block raised {self._case.why}"
            self.problem = f"{what} is not in the recording of {len(self._case.interactions)} exchanges{why}"
            return None
        if self._match == "content":
            same = (one for one in self.left if difference(one[1].request, asked, self._ignored) is None)
            chosen = next(same, None)
        else:
            chosen = self.left[0]
        expected = (chosen or self.left[0])[1].request
        wrong = None if self._match == "none" else difference(expected, asked, self._ignored)
        if wrong is not None or chosen is None:
            self.problem = f"{what} differs from recorded request {self.left[0][0]}\n  {wrong}"
            return None
        self.left.remove(chosen)
        return chosen[1]


class _Played(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes], cut: Cut | None) -> None:
        self._pieces = pieces
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)  # see above
            yield piece
        if self._cut is not None:
            raise _error(self._cut)


def _asked(request: httpx2.Request, body: bytes) -> Request:
    return Request(
        method=request.method,
        host=request.url.host,
        path=request.url.raw_path.decode("ascii"),
        headers=list(request.headers.multi_items()),
        body=body,
    )


def _headers(response: Response) -> Headers:
    kept = [(name, value) for name, value in response.headers if name.lower() not in _TRANSFER_HEADERS]
    if not any(name.lower() == "content-type" for name, _ in kept):
        stream = response.body.lstrip()[:6].startswith((b"data:", b"event:"))
        kept.append(("content-type", "text/event-stream" if stream else "application/json"))
    return kept


def _pieces(body: bytes, cuts: Cuts) -> list[bytes]:
    if cuts == "events":
        return [piece for piece in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", body) if piece]
    if cuts == "bytes":
        return [body[index : index + 1] for index in range(len(body))]
    chance = random.Random(cuts)  # noqa: S311 - the cuts are not secret
    positions = sorted(chance.randrange(len(body) + 1) for _ in range(chance.choice((3, 30, 300))))
    ends = [*positions, len(body)]
    return [body[start:end] for start, end in zip([0, *positions], ends, strict=True) if start < end]


def _error(cut: Cut | None) -> Exception:
    """Return the recorded connection error. A cancelled read becomes a timeout."""
    cut = cut or Cut(CLOSED)
    if cut.error == CANCELLED:
        return httpx2.ReadTimeout("the recording ends here: its reader was cancelled")
    kind = getattr(httpx2, cut.error, None)
    if isinstance(kind, type) and issubclass(kind, httpx2.RequestError):
        return kind(cut.message or "the recorded connection failed here")
    return httpx2.ReadError(
        f"the recording ends here ({cut.error}: {cut.message or 'its reader closed the stream'}); record again"
    )
