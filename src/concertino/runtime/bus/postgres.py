"""The bell over the database itself."""

from __future__ import annotations

import asyncio

from ...errors import StorageError
from ...storage.postgres import Notifications
from .base import AGAIN, RemoteBell


class PostgresBell(RemoteBell):
    """A bell over the PostgreSQL database at *url*, by LISTEN and NOTIFY in the channel of *schema*. See `RemoteBell`.

    It has two connections. Every process receives every ring, and a NOTIFY locks the whole database cluster at its
    commit: with thousands of events a second, use NATS.
    """

    def __init__(self, url: str, *, schema: str = "concertino") -> None:
        super().__init__()
        self._notifications = Notifications(url, schema)

    async def _receive(self) -> None:
        while True:
            try:
                await self._notifications.listen(self._is_connected, self._heard)
            except StorageError as error:
                self._is_lost(error.__cause__)
            await asyncio.sleep(AGAIN)

    async def _exchange(self, topics: list[str]) -> None:
        if topics:
            await self._notifications.send(topics)

    async def _close(self) -> None:
        await self._notifications.close()
