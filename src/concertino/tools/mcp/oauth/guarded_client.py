"""Requests to addresses that a server has named. It may be hostile, and name one of the product's own network."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import httpx2

from ....errors import LibraryError
from ...web.addresses import Resolver, is_local, resolve
from ...web.pinned_transport import PinnedTransport
from .login_values import LoginError

_MOST_BYTES = 500_000
_LONGEST_URL = 8_000
REQUEST_SECONDS = 20.0
"""Time limit of a request."""


class GuardedClient:
    """Sends requests to public https addresses, without redirects, proxies and cookies.

    With *local*, for a server on this machine, http to this machine is allowed, too; with *allow_private*, https to
    private addresses is.
    """

    def __init__(self, *, local: bool, allow_private: bool, resolver: Resolver = resolve) -> None:
        self._local = local
        self._allow_private = allow_private or local
        self._resolver = resolver

    def checked(self, url: str) -> str:
        """Return *url* if a login may use it. Raises `LoginError`."""
        if len(url) > _LONGEST_URL:  # it would reach the model in an error, or the store in a wait
            raise LoginError(f"the login names an address of more than {_LONGEST_URL:,} characters")
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and self._local and is_local(url))
        if not secure or not parts.hostname or parts.username or parts.password:
            raise LoginError(f"the login names the address {_shown(url)!r}: only https is used")
        return url

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response to *request*, up to a size. Raises `LoginError`."""
        url = self.checked(str(request.url))
        transport = PinnedTransport(self._resolver, allow_private=self._allow_private)
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                httpx2.AsyncClient(transport=transport, timeout=REQUEST_SECONDS, follow_redirects=False) as client,
            ):
                response = await client.send(request, stream=True)
                body = bytearray()
                try:
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > _MOST_BYTES:
                            raise LoginError(f"{_shown(url)} sends more than {_MOST_BYTES:,} bytes")
                finally:
                    await response.aclose()
                return httpx2.Response(response.status_code, content=bytes(body), request=request)
        except LibraryError:
            raise LoginError(
                f"the address {_shown(url)} cannot be resolved, or is not public: for a server in your own network, "
                "use McpOAuth(allow_private=True)"
            ) from None
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise LoginError(f"{_shown(url)} does not answer: {type(error).__name__}") from None


def _shown(url: str) -> str:
    """Return *url* without a query, which may contain secrets, and without a user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"[:200]
