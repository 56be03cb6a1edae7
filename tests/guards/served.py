"""Count what a delta costs from the model to the connection of a server, in each protocol."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.sqlite_log import written

from concertino import AgentConfig, Chat, MemoryStore, ModelRequest, Resources, Scope, SqliteStore
from concertino.messages import AssistantMessage, Text
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime import Runtime
from concertino.server import create_app, event_source
from concertino.server.protocols import ag_ui, ai_sdk, openai
from concertino.usage import Tokens
from tests.guards.counter import Counter, Counts

STEPS = 20


async def served(counter: Counter) -> Iterator[tuple[str, int]]:
    """Count what a delta costs from the model to the connection of a server, when each comes alone."""
    found: list[tuple[str, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for protocol, mark in _PROTOCOLS.items():
            memory = await _served_by(counter, protocol, mark, MemoryStore())
            found.append((f"{protocol}: package calls of a delta", memory["package_calls"]))
            found.append((f"{protocol}: loop callbacks of a delta", memory["callbacks"]))
            found.append((f"{protocol}: bytes of a delta", memory["bytes"]))
        with patch.object(event_source, "KEEP_ALIVE", 0.001):
            idle = await _served_by(counter, "server", b"keep-alive", MemoryStore(), idle=True)
        found.append(("idle stream: package calls of a comment", idle["package_calls"]))
        found.append(("idle stream: loop callbacks of a comment", idle["callbacks"]))
        path = Path(folder) / "runs.db"
        async with await SqliteStore.open(path) as store:
            stored = await _served_by(counter, "server", _PROTOCOLS["server"], store, path)
    found += [(f"server: commits of {STEPS} deltas", stored["commits"])]
    found += [(f"server: stored bytes of {STEPS} deltas", stored["stored"])]
    return iter(found)


_PROTOCOLS = {"server": b"text_delta", "AG-UI": b"_CONTENT", "AI SDK": b"text-delta", "Chat Completions": b'"content"'}
"""The mark of a delta's frame in each of the streams."""


async def _served_by(
    counter: Counter, protocol: str, mark: bytes, store: Any, path: Path | None = None, *, idle: bool = False
) -> Counts:
    """Return the counts of a delta in one stream; with the *path* of the store, also what is written to its log.

    An *idle* stream gets comments only.
    """
    pieces: asyncio.Queue[str] = asyncio.Queue()
    sent: asyncio.Queue[bytes] = asyncio.Queue()
    give: Callable[[str], None] = (lambda _: None) if idle else pieces.put_nowait
    size = 0

    class Piecewise:
        provider, name = "guard", "piecewise"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            while text := await pieces.get():
                yield TextChunk(text)
            yield Reply(AssistantMessage((Text("done"),), "end", self.name), Tokens(prompt=1, completion=1))

        async def close(self) -> None:
            """Close nothing."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.put_nowait(message["body"])

    async def deltas(count: int) -> None:
        nonlocal size
        for number in range(count):
            give(f"word {number} ")
            while mark not in (frame := await sent.get()):
                pass
            size = len(frame)

    async with Runtime([AgentConfig()], Resources(model=Piecewise(), store=store), sweep=3600, lease=3600) as runtime:
        scope = Scope("acme", "ann")
        routes = {
            "/agui": ag_ui.routes(runtime),
            "/chat": ai_sdk.routes(runtime),
            "/v1": openai.routes(runtime),
        }
        app = create_app(runtime, lambda _: scope, routes=routes)
        request = asyncio.create_task(app(*await _request(protocol, runtime, scope), send))
        await deltas(5 * STEPS if idle else STEPS)  # the window of the run's first events ends before what is counted
        before = None if path is None else written(Path(f"{path}-wal"))
        found = await counter.count(lambda: deltas(STEPS))
        found = {name: -(-count // STEPS) for name, count in found.items()} | {"bytes": size}
        if before is not None:
            log = written(Path(f"{path}-wal")).since(before)
            found |= {"commits": log.commits, "stored": log.bytes}
        pieces.put_nowait("")
        await request
    return found


async def _request(
    protocol: str, runtime: Runtime, scope: Scope
) -> tuple[dict[str, Any], Callable[[], Awaitable[Any]]]:
    """Return a request that streams an answer, as a server passes it to an application."""
    message = {"id": "m", "role": "user", "content": "Go.", "parts": [{"type": "text", "text": "Go."}]}
    bodies: dict[str, tuple[str, Any]] = {
        "AG-UI": ("/agui", {"threadId": "t", "runId": "r", "messages": [message], "tools": [], "context": []}),
        "AI SDK": ("/chat", {"id": "c", "messages": [message], "trigger": "submit-message"}),
        "Chat Completions": ("/v1/chat/completions", {"model": "agent", "messages": [message], "stream": True}),
    }
    if protocol in bodies:
        path, body = bodies[protocol]
        method = "POST"
    else:
        method, body = "GET", None
        path = f"/api/runs/{(await runtime.start(Chat('Go.', scope=scope), 'agent')).id}/events"
    head = {"type": "http", "method": method, "path": path, "query_string": b"", "root_path": "", "http_version": "1.1"}
    waiting = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await asyncio.Event().wait()
        raise AssertionError("the client stays")

    return {**head, "headers": [(b"content-type", b"application/json")]}, receive
