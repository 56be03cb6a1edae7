"""The same loop without an SDK and without an HTTP library: one connection, written and read by hand.

It is the limit, not an alternative: it knows no TLS, no proxy, no second connection and no error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

from benchmarks.common import URL
from benchmarks.systems.sdk_lean import Lean

DISTRIBUTIONS: tuple[str, ...] = ()


class _Raw(Lean):
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter | None = None
    _host = ""

    async def chunks(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        url = urlsplit(URL.get())
        if self._writer is None or self._host != url.netloc:
            await self.close()
            self._reader, self._writer = await asyncio.open_connection(url.hostname, url.port)
            self._host = url.netloc
        data = json.dumps({"model": "gpt-5", "stream": True, **body}).encode()
        head = (
            f"POST {url.path}/v1/chat/completions HTTP/1.1",
            f"host: {url.netloc}",
            "content-type: application/json",
            f"content-length: {len(data)}",
        )
        self._writer.write("\r\n".join([*head, "", ""]).encode() + data)
        await self._reader.readuntil(b"\r\n\r\n")
        rest = b""
        while size := int(await self._reader.readline(), 16):
            piece = await self._reader.readexactly(size + 2)
            *lines, rest = (rest + piece[:-2]).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        await self._reader.readline()

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def build(tool: Callable[..., Any]) -> _Raw:
    """Return the loop around *tool*."""
    return _Raw(tool)
