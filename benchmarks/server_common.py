"""The parts that all servers share: the model's pieces, and how a server tells its address.

Standard library and uvicorn only: peers import it in environments of their own.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator

GAP = float(os.environ.get("BENCH_GAP", "0.1"))
"""Seconds before each piece."""


def piece(number: int, size: int = 0) -> str:
    """Return one piece of the model's answer."""
    return f"w{number}." + "x" * size + " "


async def pieces(question: str) -> AsyncIterator[str]:
    """Give the pieces that *question* asks for: `COUNT` or `COUNT SIZE`; large ones come without a pause."""
    count, _, size = question.partition(" ")
    for number in range(int(count)):
        await asyncio.sleep(0 if size else GAP)
        yield piece(number, int(size or 0))


def serve(app) -> None:  # type: ignore[no-untyped-def]  # any ASGI application
    """Serve *app* on a free port, and print the port."""
    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(20_000)
    print(listener.getsockname()[1], flush=True)
    # The same loop and parser for all, whichever are installed.
    config = uvicorn.Config(app, loop="asyncio", http="h11", ws="none", log_level="warning", lifespan="auto")
    uvicorn.Server(config).run(sockets=[listener])
