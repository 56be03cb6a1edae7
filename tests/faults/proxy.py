"""A TCP proxy before a server, which cuts, delays, drops and half-opens connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


@dataclass(eq=False)
class _Link:
    """A connection of a client, and the one to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    silent: bool = False

    def close(self) -> None:
        """Close both."""
        self.client.close()
        self.server.close()


class Proxy:
    """Forwards connections to a port of this machine. Its faults are attributes, to be changed at any time."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self.connections = 0
        self.delay = 0.0
        """Seconds that each piece is late."""
        self.frozen = False
        """Whether nothing passes, and no connection is closed."""
        self.deaf = False
        """Whether requests pass and answers are dropped."""
        self.swallows = 0
        """The number of answers to lose, each with its connection."""
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        self.connections += 1
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the server is down
            writer.close()
            return
        self._links.add(link := _Link(writer, up_writer))
        pumps = [self._pump(reader, up_writer, link, down=False), self._pump(up_reader, writer, link, down=True)]
        self._tasks |= {asyncio.create_task(pump) for pump in pumps}

    def half_open(self) -> None:
        """Let nothing pass any more over the connections that exist now, without a word to their clients."""
        for link in self._links:
            link.silent = True

    @property
    def half_opened(self) -> int:
        """The number of half-open connections that their clients have not given up."""
        return sum(link.silent for link in self._links)

    def cut(self) -> None:
        """Close all connections."""
        for link in self._links:
            link.close()

    async def close(self) -> None:
        """Close all connections, and wait for the tasks."""
        self.frozen = False
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link, *, down: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if down and self.swallows:
                    self.swallows -= 1
                    break
                if link.silent or (down and self.deaf):
                    continue
                if self.delay:
                    await asyncio.sleep(self.delay)
                while self.frozen:  # noqa: ASYNC110 - a test ends it
                    await asyncio.sleep(0.01)
                writer.write(data)
                await writer.drain()
        if down and link.silent:
            link.server.close()  # the client does not learn of it
            return
        link.close()
        self._links.discard(link)


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    """Run a proxy to *port*."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
