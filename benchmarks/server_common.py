"""The parts that all servers share: the model's pieces, and how a server tells its address.

Standard library and uvicorn only: peers import it in environments of their own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator

GAP = float(os.environ.get("BENCH_GAP", "0.1"))
"""Seconds before each piece."""


_ending: list[int] = []
signal.signal(signal.SIGUSR1, lambda number, _: _ending.append(number))


def piece(number: int, size: int, *, last: bool) -> str:
    """Return one piece of the model's answer."""
    return f"w{number}." + ("end" if last else "x" * size) + " "


async def pieces(question: str) -> AsyncIterator[str]:
    """Give the pieces that *question* asks for: `COUNT` or `COUNT SIZE`; large ones come without a pause.

    After SIGUSR1, the next piece of every answer is its last.
    """
    count, _, size = question.partition(" ")
    last, number = False, 0
    while not last:
        await asyncio.sleep(0 if size else GAP)
        last = bool(_ending) or number == int(count) - 1
        yield piece(number, int(size or 0), last=last)
        number += 1


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
