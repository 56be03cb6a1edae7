"""The bell over NATS."""

from __future__ import annotations

import asyncio
from typing import Any

from ...extras import extra
from .base import AGAIN, RemoteBell

with extra("nats", "a bell over NATS"):
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import Error


class _NoTlsError(Error):
    """A server offers no TLS, and the client asks for it."""


class _PlainClient(Client):
    """A client that reads no headers, and sends no credentials without TLS if TLS was asked for."""

    async def _process_headers(self, headers: Any) -> None:
        """Ignore them: malformed ones of other programs would end the reading until the next pings."""

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Refuse a server without TLS before the client answers: nats-py uses TLS only if the server requires it."""
        server = self._current_server
        wanted = self.options.get("tls") is not None or (server is not None and server.uri.scheme == "tls")
        if initial_connection and wanted and not (info.get("tls_required") or self.options["tls_handshake_first"]):
            place = server and f"{server.uri.hostname}:{server.uri.port}"
            raise _NoTlsError(
                f"nats {place}: the server does not require TLS, so no credentials were sent: "
                "enable TLS in the server, or use a nats:// URL without `tls` if the network is trusted"
            )
        await super()._process_info(info, initial_connection)


_OPTIONS: dict[str, Any] = {
    "name": "concertino",
    "no_echo": True,
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": AGAIN,
    "connect_timeout": 2,
    # A server that is gone without a word is noticed within ten seconds.
    "ping_interval": 4,
    "max_outstanding_pings": 2,
}


class NatsBell(RemoteBell):
    """A bell over the NATS server at *url*: `async with NatsBell("nats://bus.internal") as bell`. See `RemoteBell`.

    The topics are subjects of core NATS. Options are nats-py's, such as `tls` or `user_credentials`.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self._url, self._options = url, {**_OPTIONS, **options}
        self._client = _PlainClient()
        self._heard_topics: dict[str, Subscription] = {}

    async def _receive(self) -> None:
        async def lost(error: object = None) -> None:
            if not self._client.is_connected:
                self._is_lost(error)

        async def back() -> None:
            self._is_connected()

        calls: dict[str, Any] = {"error_cb": lost, "disconnected_cb": lost, "reconnected_cb": back}
        await self._client.connect(self._url, **calls, **self._options)
        self._is_connected()
        await asyncio.Event().wait()  # the client calls back from now on

    def _reason(self, error: object) -> str:
        return str(error) if isinstance(error, _NoTlsError) else super()._reason(error)

    async def _exchange(self, topics: list[str]) -> None:
        for topic in set(self._calls).difference(self._heard_topics):
            self._heard_topics[topic] = await self._client.subscribe(topic, cb=self._pass_on)
        for topic in set(self._heard_topics).difference(self._calls):
            await self._heard_topics.pop(topic).unsubscribe()
        for topic in topics:
            await self._client.publish(topic)
        if topics:
            await self._client.flush(2)

    async def _pass_on(self, message: Msg) -> None:
        self._heard(message.subject)

    async def _close(self) -> None:
        await self._client.close()
