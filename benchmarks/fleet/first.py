"""The first piece of an answer, from the model in a worker to a reader in another process.

`python -m benchmarks.fleet.first URL BUS` is the worker.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from concertino import AgentConfig, ModelRequest, Resources, Runtime, Scope, Tokens
from concertino.events import RunStarted, TextDelta
from concertino.messages import AssistantMessage, Text
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime import Fleet, NatsBell
from concertino.storage import PostgresStore
from concertino.testing import ScriptedModel

_TARGETS = {"desks": ["desk"]}
_PIECES, _SECONDS = 20, 0.2


class _Desk(AgentConfig[None]):
    name = "desk"


class _Clock:
    """Answers with the time of its first piece, by the clock that all processes share, and further pieces later."""

    provider, name = "bench", "clock"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        pieces = [f"{time.monotonic()} ", *["word "] * (_PIECES - 1)]
        for piece in pieces:
            yield TextChunk(piece)
            await asyncio.sleep(_SECONDS / _PIECES)
        yield Reply(AssistantMessage((Text("".join(pieces)),), "end", self.name), Tokens(prompt=100, completion=40))

    async def close(self) -> None:
        """See the port."""


async def _work(url: str, bus: str) -> None:
    async with await PostgresStore.open(url) as store, NatsBell(bus) as bell:
        runtime = Runtime([_Desk()], Resources(store=store, model=_Clock()))
        runtime.join(Fleet(bell=bell, targets=_TARGETS, takes=["desks"]))
        async with runtime:
            print("ready", flush=True)
            await asyncio.Event().wait()


async def _follow(web: Runtime, number: int) -> tuple[float, float, float]:
    """Send a message. Return the seconds until the first event, until the first piece, and since the model had it."""
    conversation = await web.conversation(Scope(tenant="shop", user=f"user-{number}"), agent="desk")
    sent, started = time.monotonic(), 0.0
    turn = await conversation.send("hello")
    times: tuple[float, float, float] | None = None
    async for _, event in turn.events():
        if isinstance(event, RunStarted):
            started = time.monotonic()
        elif isinstance(event, TextDelta) and times is None:
            now = time.monotonic()
            times = started - sent, now - sent, now - float(event.text.split()[0])
    assert times is not None
    return times


async def _read(url: str, bus: str, many: int, at_once: int) -> dict[str, Any]:
    async with await PostgresStore.open(url) as store, NatsBell(bus) as bell:
        web = Runtime([_Desk()], Resources(store=store, model=ScriptedModel()))
        web.join(Fleet(bell=bell, targets=_TARGETS))
        async with web:
            found = []
            for first in range(0, many, at_once):
                numbers = range(first, min(first + at_once, many))
                found += await asyncio.gather(*[_follow(web, number) for number in numbers])
    names = ("event", "answer", "piece")
    return {name: _summary(seconds) for name, seconds in zip(names, zip(*found, strict=True), strict=True)}


def _summary(seconds: tuple[float, ...]) -> tuple[float, float, float]:
    """Return the median, the 95th percentile and the longest, in milliseconds."""
    return tuple(
        1e3 * each for each in (statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1], max(seconds))
    )  # type: ignore[return-value]


def first(url: str, bus: str, many: int, at_once: int) -> dict[str, Any]:
    """Measure *many* conversations, *at_once* at a time, that a worker answers and this process follows."""
    command = [sys.executable, "-m", "benchmarks.fleet.first", url, bus]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            return asyncio.run(_read(url, bus, many, at_once))
        finally:
            worker.kill()


if __name__ == "__main__":
    asyncio.run(_work(*sys.argv[1:]))
