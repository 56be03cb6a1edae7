"""The lines that an MCP client sends over standard input."""

from __future__ import annotations

import asyncio
import os

from concertino.server.mcp.stdio import read_lines


async def test_lines_may_arrive_in_pieces() -> None:
    incoming, outgoing = os.pipe()
    lines = read_lines(incoming)
    first = asyncio.create_task(anext(lines))
    os.write(outgoing, b"caf\xc3")
    os.write(outgoing, b"\xa9\n\xff\nrest")
    assert [await first, await anext(lines)] == ["café", "\ufffd"]
    os.close(outgoing)
    assert [line async for line in lines] == []
    os.close(incoming)
