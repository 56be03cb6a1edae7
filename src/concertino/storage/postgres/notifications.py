"""Notifications between processes on the same database: LISTEN and NOTIFY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from ...errors import ConfigurationError, StorageError
from .schema import check_name
from .settings import conninfo, parsed

_PATIENCE = 5.0
"""Seconds in which a statement is to end."""
_QUIET = 4.0
"""Seconds without a notification after which the server is asked whether it is still there."""


class _WatchedConnection(psycopg.AsyncConnection[Any]):
    """A connection that is closed if a statement has no answer, as through a link that drops everything."""

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - psycopg calls it
        """Wait for the server; with *timeout*, silence is expected. Raises `psycopg.OperationalError`."""
        try:
            return await super().wait(gen, interval, _PATIENCE + 1 if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if timeout is None and error.sqlstate is None:  # not an answer of the server
                self.pgconn.finish()
            raise


class Notifications:
    """The channel of *schema* in the database at *url*. Raises `ConfigurationError` for an invalid URL or schema."""

    def __init__(self, url: str, schema: str = "concertino") -> None:
        try:
            self._conninfo = conninfo(parsed(url), check_name(schema), _PATIENCE, read_only=False)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        self._channel = schema
        self._listening: psycopg.AsyncConnection[Any] | None = None
        self._sending: psycopg.AsyncConnection[Any] | None = None

    async def listen(self, begun: Callable[[], None], call: Callable[[str], None]) -> None:
        """Call *begun* once, and *call* with each text that another process sends, until the connection is lost.

        Raises `StorageError` then.
        """
        try:
            self._listening = await self._connect()
            async with self._listening as connection:
                listen = sql.SQL("LISTEN {}").format(sql.Identifier(self._channel))
                await connection.execute(listen)
                begun()
                while True:
                    async for notice in connection.notifies(timeout=_QUIET):
                        if self._sending is None or notice.pid != self._sending.info.backend_pid:
                            call(notice.payload)
                    await connection.execute(listen)  # changes nothing; a half-open connection has no answer
        except psycopg.Error as error:
            raise StorageError("the connection for notifications was lost") from error
        finally:
            self._listening = None

    async def send(self, texts: Sequence[str]) -> None:
        """Send each of *texts* to all processes. Raises `StorageError` if they may not have arrived."""
        try:
            if self._sending is None or self._sending.closed:
                self._sending = await self._connect()
            await self._sending.execute(
                "SELECT pg_notify(%s, t) FROM unnest(%s::text[]) AS t", (self._channel, list(texts))
            )
        except psycopg.Error as error:
            raise StorageError("the notifications were not sent") from error

    async def close(self) -> None:
        """Close the connections."""
        for connection in (self._listening, self._sending):
            if connection is not None:
                await connection.close()

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        return await _WatchedConnection.connect(self._conninfo, autocommit=True)
