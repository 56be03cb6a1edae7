"""A transport that connects to exactly the addresses that were checked.

If the connection resolved the name again, its owner could answer the check with a public address and the connection
with a private one (DNS rebinding).
"""

from __future__ import annotations

import httpx2

from .addresses import Address, Resolver, checked_addresses

_DEFAULT_PORTS = {"http": 80, "https": 443}


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Resolve and check the host of each request, then connect to the address instead of the name.

    The Host header and TLS still use the name, so certificates are verified as usual. Addresses are tried in the
    resolver's order until one accepts the connection.
    """

    def __init__(self, resolver: Resolver, *, allow_private: bool) -> None:
        self._resolver = resolver
        self._allow_private = allow_private
        # No keep-alive: the pool is keyed by address, and two names at one address must not share a connection whose
        # certificate was verified for one of them. No proxies: they would resolve the name themselves.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request. Raises `LibraryError` for a rejected host, else `httpx2.TransportError`."""
        url = request.url
        port = url.port or _DEFAULT_PORTS[url.scheme]
        # Certificates contain the name in its ASCII form.
        host = url.raw_host.decode("ascii")
        addresses = await checked_addresses(host, port, allow_private=self._allow_private, resolver=self._resolver)
        failure: httpx2.TransportError | None = None
        for address in addresses:
            try:
                return await self._inner.handle_async_request(_pinned(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure or httpx2.ConnectError("no address to connect to")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


def _pinned(request: httpx2.Request, host: str, address: Address) -> httpx2.Request:
    extensions = {**request.extensions, "sni_hostname": host.strip("[]")}
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )
