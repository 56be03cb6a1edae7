"""Turns of conversations on one database, at once: what one of them writes, and what each second of its stream adds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg

from benchmarks.fleet.steps import logged, server_cpu, written
from concertino import AgentConfig, ModelRequest, Resources, Runtime, Scope, Tokens, tool
from concertino.messages import AssistantMessage, Text, ToolCall, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.storage import PostgresStore

CALLS, PIECES = 2, 50
"""Tool calls of a turn, and the pieces of its answer."""


@tool(effect="read")
async def look_up(n: int) -> str:  # noqa: ARG001 - the model gives one
    """Look something up."""
    return "a result of the tool ".ljust(1_000, "x")


class _Model:
    """Calls the tool twice, and then answers in pieces for some seconds."""

    provider, name = "bench", "streams"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        last = max(place for place, message in enumerate(request.messages) if isinstance(message, UserMessage))
        made, tokens = (len(request.messages) - 1 - last) // 2, Tokens(prompt=1_000, completion=100)
        if made < CALLS:
            asked = ToolCall(f"call_{len(request.messages)}", "look_up", f'{{"n": {made}}}')
            yield Reply(AssistantMessage((asked,), "tool_calls", self.name), tokens)
            return
        piece = "a few words of the answer "
        for _ in range(PIECES):
            yield TextChunk(piece)
            if self._seconds:
                await asyncio.sleep(self._seconds / PIECES)
        yield Reply(AssistantMessage((Text(piece * PIECES),), "end", self.name), tokens)

    async def close(self) -> None:
        """See the port."""


class _Desk(AgentConfig[None]):
    name = "desk"
    tools = (look_up,)


async def turns(url: str, at_once: int, seconds: float, each: int = 4) -> dict[str, Any]:
    """Measure *each* turns in *at_once* conversations, with answers that are streamed for so many *seconds*."""
    with psycopg.connect(url, autocommit=True) as connection:
        async with await PostgresStore.open(url) as store:
            model = _Model(seconds)
            async with Runtime([_Desk()], Resources(store=store, model=model)) as runtime:
                await _talk(runtime, "first", 1)
                before = _counts(connection)
                await asyncio.gather(*(_talk(runtime, f"user-{number}", each) for number in range(at_once)))
                after = _counts(connection)
    many = at_once * each
    names = ("transactions", "log_kb", "disk_kb", "server_ms", "cpu_ms")
    return {name: (new - old) / many for name, new, old in zip(names, after, before, strict=True)}


async def _talk(runtime: Runtime, user: str, many: int) -> None:
    conversation = await runtime.conversation(Scope(tenant="shop", user=user), agent="desk")
    for _ in range(many):
        await (await conversation.send("A question.")).result()


def _counts(connection: psycopg.Connection) -> tuple[float, ...]:
    connection.execute("CHECKPOINT")
    ((size,),) = connection.execute("SELECT pg_database_size(current_database())").fetchall()
    cpu = server_cpu(connection) * 1e3, time.process_time() * 1e3
    return written(connection), logged(connection) / 1e3, size / 1e3, *cpu
