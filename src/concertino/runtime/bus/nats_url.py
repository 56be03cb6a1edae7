"""The URL of a NATS server, or of the servers of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from ...errors import ConfigurationError

_SERVER = re.compile(r"((nats|tls)://)?[^\s/?#,]+/?")
"""A URL, or a host with or without a port."""
_USE = "use a URL, such as 'nats://bus.internal:4222'"


def servers_of(url: str) -> Sequence[str]:
    """Return the servers that *url* names, separated by commas. Raises `ConfigurationError` if one is invalid."""
    servers = [each.strip() for each in url.split(",")]
    if problem := next(_problems(servers), ""):
        head, _, _ = url.partition("//")
        shown = head.rpartition("@")[2][:20]  # the rest may contain a password
        if "@" in url and len(servers) > 1:
            problem += "; write a comma in a password as %2C"
        raise ConfigurationError(f"invalid nats '{shown}...': {problem}")
    return servers


def _problems(servers: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong, with the remedy."""
    for server in servers:
        if server.startswith(("ws://", "wss://")):
            yield f"WebSocket is not supported; {_USE}"
        if "?" in server or "#" in server:
            yield f"it has a query or a fragment; {_USE}"
        try:
            parts = urlsplit(server if "://" in server else f"nats://{server}")
            valid = _SERVER.fullmatch(server) and parts.port != 0
        except ValueError:  # an invalid port
            valid = None
        if not valid:
            yield _USE
        elif not parts.hostname:
            yield f"it has no host; {_USE}"
    if len({"@" in server for server in servers}) > 1:  # or a comma in a password was taken for the end of a server
        yield "one of its servers has credentials, and another has none; give each its own"
