"""A server in a process of its own: `python -m tests.server.program FOLDER GRACE STREAM_SECONDS`.

Its model answers by the last message of the user. An answer to "slow" stops in the middle until the folder has a file
named `go`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.requests import Request

from concertino import ModelRequest, Resources, Runtime, Scope, SqliteStore, ToolMessage
from concertino.providers import ModelEvent
from concertino.server import FileFolder, ServerLimits, create_app, serve
from concertino.testing import Answer, ScriptedModel, call

from .kit import Desk, analyst, authenticate

SLOW = "one two three four five six"


class Model(ScriptedModel):
    """Streams words; with "slow" it waits in the middle."""

    def __init__(self, folder: Path) -> None:
        super().__init__(*[self._step] * 100_000)
        self._go = folder / "go"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `ScriptedModel.stream`."""
        slow = getattr(request.messages[-1], "text", "") == "slow"
        count = 0
        async for event in super().stream(request):
            yield event
            count += 1
            while slow and count == 3 and not self._go.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)

    def _step(self, request: ModelRequest) -> Answer | object:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return f"Done: {last.content}."
        text = last.text
        if text.startswith("refund"):
            return call("refund", order="7", euros=5)
        return SLOW if text == "slow" else f"You said: {text}"


def other_for_erasure(request: Request) -> Scope | None:
    """Return the scope of a request; everything of another user is erased, so that a sweep finds what it created."""
    scope = authenticate(request)
    return Scope("acme", "other") if scope and request.url.path == "/api/data" else scope


async def main(folder: Path, grace: float, stream_seconds: float) -> None:
    async with (
        await SqliteStore.open(folder / "chat.db") as store,
        Runtime([Desk(), analyst()], Resources(model=Model(folder), store=store), sweep=0.1) as runtime,
    ):
        limits = ServerLimits(requests=10**9, stream_seconds=stream_seconds)
        app = create_app(runtime, other_for_erasure, files=FileFolder(folder / "files"), limits=limits)
        await serve(app, port=0, grace=grace, started=lambda address: print(address, flush=True))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
