"""Standard input and output of this process as the connection to one MCP client."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mcp.server.stdio import stdio_server

from ...tools.threads import run_in_thread

_CHUNK = 65_536


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from and to the client.

    The SDK's own reader cannot be cancelled, so that a signal would not end the process.
    """
    with _own_stdin() as descriptor:
        lines: Any = read_lines(descriptor)
        async with stdio_server(stdin=lines) as streams:
            yield streams


async def read_lines(descriptor: int) -> AsyncGenerator[str, None]:
    """Yield the lines of a file descriptor; it is read in a thread that does not keep the process from ending."""
    left = b""
    while chunk := await run_in_thread(os.read, descriptor, _CHUNK):
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


@contextmanager
def _own_stdin() -> Iterator[int]:
    """Yield another descriptor of standard input. Inside the block, children and tools read an empty file instead."""
    own = os.dup(0)  # never closed: the thread may still read it
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield own
    finally:
        os.dup2(own, 0)
