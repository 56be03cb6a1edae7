"""A server on a port of this machine, for browsers and for streams that do not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


@asynccontextmanager
async def listening(app: Starlette) -> AsyncIterator[str]:
    """Serve *app*, and yield the address."""
    config = uvicorn.Config(app, port=0, log_level="warning", ws="none", timeout_graceful_shutdown=5, lifespan="off")
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():  # noqa: ASYNC110 - it has no event to await
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        app.state.server.closing.set()
        server.should_exit = True
        await serving
