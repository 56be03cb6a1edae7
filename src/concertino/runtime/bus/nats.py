"""The bell over NATS."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from ...extras import extra
from .base import AGAIN, RemoteBell, log
from .nats_url import servers_of

with extra("nats", "a bell over NATS"):
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import Error


class _NoTlsError(Error):
    """A server offers no TLS, and the client asks for it."""


_SUBJECTS = "cmd.agent.>, evt.agent.> and evt.conversation.>"
_DENIED = re.compile(r"permissions violation for (\w+) to \"?(\w+\.\w+).*?(\w+)\"?'?$", re.IGNORECASE)
"""What a user may not do, and with which kind of subject: its first two parts and the last one."""


class _PlainClient(Client):
    """A client that reads no headers, decodes credentials, and sends none without TLS if TLS was asked for."""

    async def _process_headers(self, headers: Any) -> None:
        """Ignore them: malformed ones of other programs would end the reading until the next pings."""

    def _setup_server_pool(self, connect_url: Any) -> None:
        """Decode the credentials in the URLs: nats-py sends them as they are written."""
        super()._setup_server_pool(connect_url)
        for server in self._server_pool:
            credentials, at, host = server.uri.netloc.rpartition("@")
            server.uri = server.uri._replace(netloc=f"{unquote(credentials)}{at}{host}")

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Refuse a server without TLS before the client answers: nats-py uses TLS only if the server requires it."""
        server = self._current_server
        wanted = self.options.get("tls") is not None or (server is not None and server.uri.scheme == "tls")
        if initial_connection and wanted and not (info.get("tls_required") or self.options.get("tls_handshake_first")):
            raise _NoTlsError(
                "the server does not require TLS, so no credentials were sent: "
                "enable TLS in the server, or use a nats:// URL without `tls` if the network is trusted"
            )
        await super()._process_info(info, initial_connection)

    @property
    def address(self) -> str:
        """The server of the last attempt, without credentials."""
        server = self._current_server or self._server_pool[-1]  # an attempt moves its server to the end
        return f"nats {server.uri.hostname}:{server.uri.port}"


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

    Separate the servers of a cluster by commas. Credentials in the URL are percent-encoded: a comma is %2C. The topics
    are subjects of core NATS. Options are nats-py's, such as `tls` or `user_credentials`.

    Raises `ConfigurationError` for an invalid URL.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self._servers, self._options = list(servers_of(url)), {**_OPTIONS, **options}
        self._client = _PlainClient()
        self._denied: set[tuple[Any, ...]] = set()
        """The permissions that the user lacks, as far as they were logged."""
        self._heard_topics: dict[str, Subscription] = {}

    async def _receive(self) -> None:
        async def lost(error: object = None) -> None:
            if not self._client.is_connected:
                self._is_lost(error)
            elif (denied := _DENIED.search(str(error))) is not None and denied.groups() not in self._denied:
                self._denied.add(denied.groups())
                allow = f"allow its user to publish and subscribe to {_SUBJECTS}"
                log.warning("the bell does not work fully: %s: %s; %s", self._client.address, error, allow)

        async def back() -> None:
            self._is_connected()

        calls: dict[str, Any] = {"error_cb": lost, "disconnected_cb": lost, "reconnected_cb": back}
        await self._client.connect(self._servers, **calls, **self._options)
        self._is_connected()
        await asyncio.Event().wait()  # the client calls back from now on

    def _reason(self, error: object) -> str:
        if isinstance(error, _NoTlsError):
            why = str(error)
        elif "authorization violation" in str(error).lower():
            why = "the server refuses the user or the password; check the credentials in the URL or the options"
        else:
            why = f"{super()._reason(error)}; check the host and the port, and that the server runs"
        return f"{self._client.address}: {why}"

    async def _exchange(self, topics: list[str]) -> None:
        for topic in set(self._calls).difference(self._heard_topics):
            self._heard_topics[topic] = await self._client.subscribe(topic, cb=self._pass_on)
        for topic in set(self._heard_topics).difference(self._calls):
            await self._heard_topics.pop(topic).unsubscribe()
        for topic in topics:
            await self._client.publish(topic)
        if topics:
            await self._client.flush(2)

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> int:
        """See `MessageBell.publish`. Raises `ConnectionError` without a connection, and the client's errors."""
        if not self.connected:
            raise ConnectionError("the NATS server cannot be reached")
        sent = [each for each in messages if len(each[1]) <= self._client.max_payload]
        for topic, data in sent:
            await self._client.publish(topic, data)
        await self._client.flush(2)
        return len(messages) - len(sent)

    async def _pass_on(self, message: Msg) -> None:
        self._heard(message.subject)

    async def _close(self) -> None:
        await self._client.close()
