"""A server on 127.0.0.1 that plays answers, and models that ask it through the real SDKs."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from concertino.messages import Message, UserMessage
from concertino.providers import Model, ModelEvent, ModelRequest, Reply
from concertino.providers.anthropic import AnthropicModel
from concertino.providers.google import GoogleModel
from concertino.providers.openai import OpenAIModel

MODELS: dict[str, Callable[[str], Model]] = {
    "anthropic": lambda url: AnthropicModel("claude-sonnet-4-5", api_key="key", base_url=url),
    "responses": lambda url: OpenAIModel("gpt-5", api_key="key", base_url=f"{url}/v1", api="responses"),
    "chat": lambda url: OpenAIModel("gpt-5", api_key="key", base_url=f"{url}/v1"),
    "google": lambda url: GoogleModel("gemini-3-flash", api_key="key", base_url=url),
}


@dataclass(slots=True)
class Answer:
    """The server's next answer: *pieces* are sent one by one; a *broken* answer closes the connection after them.

    It is *silent* at first, *stalls* before the end, or *drips*, for the given seconds. *refused*: the server reads
    the request and closes the connection.
    """

    pieces: Sequence[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    broken: bool = False
    silent: float = 0.0
    stall: float = 0.0
    drip: float = 0.0
    refused: bool = False


@dataclass(slots=True)
class Asked:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: Any


class Server:
    """Plays `answers` in order, and keeps the requests in `asked`."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.url = ""
        self._open: set[asyncio.StreamWriter] = set()

    def play(self, body: str | bytes, *, cuts: Iterable[int] = (), **how: Any) -> None:
        """Answer the next request with *body*, cut at *cuts*."""
        data = body.encode() if isinstance(body, str) else body
        at = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
        pieces = [data[a:b] for a, b in itertools.pairwise(at) if a < b]
        self.answers.append(Answer(pieces, **how))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(Asked(head[0].split(" ")[1], headers, json.loads(body or b"null")))
        answer = self.answers.pop(0)
        if answer.refused:
            return False
        await asyncio.sleep(answer.silent)
        answer.headers.setdefault("content-type", "text/event-stream")
        lines = [f"HTTP/1.1 {answer.status} Played", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in answer.pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            if answer.drip:
                await asyncio.sleep(answer.drip)
        await asyncio.sleep(answer.stall)
        if not answer.broken:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return not answer.broken

    def drop_all(self) -> None:
        """Close the connections that clients left open."""
        for writer in list(self._open):
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Yield a running server."""
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        server.drop_all()
        await listener.wait_closed()
        await asyncio.sleep(0)


@asynccontextmanager
async def model_of(kind: str, server: Server) -> AsyncIterator[Model]:
    """Yield a model of *server*."""
    model = MODELS[kind](server.url)
    try:
        yield model
    finally:
        await model.close()


def request(*messages: Message, **settings: Any) -> ModelRequest:
    """Return a request with defaults."""
    fields: dict[str, Any] = {"model": "some-model", "system": "", **settings}
    return ModelRequest(messages=messages or (UserMessage("Hi"),), **fields)


async def events_of(model: Model, asked: ModelRequest | None = None) -> list[ModelEvent]:
    """Return all events of the model."""
    return [event async for event in model.stream(asked or request())]


async def played(kind: str, body: str | bytes, **how: Any) -> list[ModelEvent]:
    """Return the events of a model that receives *body*."""
    async with serving() as server, model_of(kind, server) as model:
        server.play(body, **how)
        return await events_of(model)


def reply_of(events: list[ModelEvent]) -> Reply:
    """Return the reply, which must be the last event and the only reply."""
    assert sum(isinstance(event, Reply) for event in events) == 1
    reply = events[-1]
    assert isinstance(reply, Reply)
    return reply


def sse(*events: dict[str, Any] | str) -> str:
    """Return a stream of *events*, named by their types; a text is sent as it is."""
    lines = []
    for event in events:
        if isinstance(event, dict) and "type" in event:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)}\n\n")
    return "".join(lines)


def random_cuts(body: str, seed: int) -> list[int]:
    """Return cuts at every byte for seed 0, else at random."""
    length = len(body.encode())
    if seed == 0:
        return list(range(length))
    chance = random.Random(seed)
    return [chance.randrange(length) for _ in range(chance.choice((3, 30, 300)))]
