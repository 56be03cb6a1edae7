"""A bare Starlette endpoint that forwards the model's pieces as server-sent events, and keeps nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from benchmarks.server_common import pieces, serve


async def run(request: Request) -> StreamingResponse:
    question = (await request.json())["messages"][-1]["content"]

    async def frames() -> AsyncIterator[str]:
        async for text in pieces(question):
            yield f"data: {json.dumps({'type': 'text', 'delta': text})}\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")


async def idle(_: Request) -> StreamingResponse:
    async def frames() -> AsyncIterator[str]:
        yield 'data: {"type": "open"}\n\n'
        await asyncio.Event().wait()

    return StreamingResponse(frames(), media_type="text/event-stream")


app = Starlette(routes=[Route("/run", run, methods=["POST"]), Route("/idle/{number}", idle)])

if __name__ == "__main__":
    serve(app)
