"""The client of the servers: many connections at once, as little work for each as possible."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

_MARK = re.compile(rb"w(\d+)\.")
_PIECE = re.compile(r"w(\d+)\.(end)?")


class Reader(asyncio.Protocol):
    """One request whose answer is kept as it comes; it is read after the measurement."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.body = bytearray()
        self.first = 0.0
        self.arrivals: list[float] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.marked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.body += data
        self.arrivals.append(time.monotonic())
        if not self.first and (_MARK.search(data) is not None):
            self.first = self.arrivals[-1]
            self.marked.set_result(None)
        if not self.opened.done() and b"data: " in data:
            self.opened.set_result(None)
        if data.endswith(b"0\r\n\r\n"):  # the last chunk of the answer
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.closed, self.opened, self.marked):
            if not future.done():
                future.set_result(None)


def request(method: str, path: str, user: str, body: Any = None) -> bytes:
    """Return the bytes of a request."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: bench\r\nx-user: {user}\r\nconnection: close\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content


async def connect(port: int, sent: bytes) -> Reader:
    """Send a request, and return the reader of its answer."""
    _, reader = await asyncio.get_running_loop().create_connection(lambda: Reader(sent), "127.0.0.1", port)
    return reader


async def connect_all(port: int, requests: Sequence[bytes], *, at_once: int = 200) -> list[Reader]:
    """Send all *requests*, so many at the same time that the server's backlog suffices."""
    slots = asyncio.Semaphore(at_once)

    async def one(sent: bytes) -> Reader:
        async with slots:
            return await connect(port, sent)

    return await asyncio.gather(*[one(sent) for sent in requests])


async def answer(port: int, method: str, path: str, user: str, body: Any = None) -> Any:
    """Return the JSON of an answer."""
    reader = await connect(port, request(method, path, user, body))
    await reader.closed
    head, _, content = bytes(reader.body).partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1][:1] == b"2", bytes(reader.body[:500])
    return json.loads(_unchunked(content) if b"chunked" in head.lower() else content)


def events_of(reader: Reader) -> list[Any]:
    """Return the events of an answer."""
    _, _, content = bytes(reader.body).partition(b"\r\n\r\n")
    text = _unchunked(content).decode()
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]


def _unchunked(content: bytes) -> bytes:
    """Return the content of all complete chunks: a stream may be cut off."""
    found, at = [], 0
    while (end := content.find(b"\r\n", at)) > at:
        start, length = end + 2, int(content[at:end], 16)
        if len(content) < start + length:
            break
        found.append(content[start : start + length])
        at = start + length + 2
    return b"".join(found)


def answered(reader: Reader, text_of: Callable[[Any], str]) -> tuple[int, int]:
    """Return the pieces of an answer, and how many are missing, or come twice or in another order."""
    found = _PIECE.findall("".join(text_of(event) for event in events_of(reader)))
    numbers = [int(number) for number, _ in found]
    if numbers == list(range(len(numbers))) and found and found[-1][1]:
        return len(found), 0
    return len(found), max(1, max(numbers, default=0) + 1 - len(set(numbers)))


class Section:
    """The deltas that reach *readers* between now and `end`."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self._begun = [(len(reader.body), len(reader.arrivals)) for reader in readers]

    def end(self) -> None:
        self._ended = [(len(reader.body), len(reader.arrivals)) for reader in self._readers]

    def deltas(self) -> int:
        """Return how many there were."""
        sections = zip(self._readers, self._begun, self._ended, strict=True)
        return sum(len(_MARK.findall(reader.body, begun, ended)) for reader, (begun, _), (ended, _) in sections)

    def pauses(self) -> list[float]:
        """Return the times between two arrivals at a reader."""
        sections = zip(self._readers, self._begun, self._ended, strict=True)
        found = [reader.arrivals[begun:ended] for reader, (_, begun), (_, ended) in sections]
        return [late - early for times in found for early, late in pairwise(times)]


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    return statistics.median(values), sorted(values)[int(len(values) * 0.95)]
