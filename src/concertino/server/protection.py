"""Middleware that protects the application: headers, hosts and origins, authentication, and the size of bodies."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from ..scope import Scope
from .error_form import ErrorForms, path_below_mount
from .request_limits import RequestRates

Authenticate = Callable[[Request], Awaitable[Scope | None] | Scope | None]
"""Returns the scope of the person who asks, from the product's own session; None if there is no session."""

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer, unless an endpoint sets its own."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_BEGUN = "concertino.begun"
"""Key of a connection whose answer has begun."""


class SecurityHeaders:
    """Adds `SECURITY_HEADERS`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                connection[_BEGUN] = True
            await send(message)

        await self._app(connection, receive, send_with_headers)


class FailureForm:
    """Answers a request that failed with an unexpected error, and raises it again: the server prints the traceback.

    Starlette's own handler of such errors is outside of all middleware, so that its answer has none of their headers.
    `SecurityHeaders` notes that an answer has begun: one more wrapper of `send` would cost each frame of a stream.
    """

    def __init__(self, app: ASGIApp, forms: ErrorForms) -> None:
        self._app = app
        self._forms = forms

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            await self._app(connection, receive, send)
        except Exception as error:
            if connection["type"] == "http" and _BEGUN not in connection:
                await self._forms.response(Request(connection), error)(connection, receive, send)
            raise


class OriginGuard:
    """Refuses requests to other host names, and requests of other sites' pages that change something.

    A browser sends cookies with a request that another site's page makes, so a session alone does not show that the
    user wanted it. Browsers state the origin of the page in `Sec-Fetch-Site` and `Origin`, which a page cannot set;
    other programs send neither, and have no cookies to misuse.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str], hosts: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer a request. Raises `HTTPException`."""
        if connection["type"] == "http":
            headers = Headers(scope=connection)
            if self._hosts and _host_name(headers.get("host", "")) not in self._hosts:
                raise HTTPException(400, "the host name of the request is not one of this server's")
            if connection["method"] not in _SAFE_METHODS and not self._is_own(headers):
                raise HTTPException(403, "a page of another site may not change anything here")
        await self._app(connection, receive, send)

    def _is_own(self, headers: Headers) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin in self._origins:
            return True
        if site is not None:
            return site in ("same-origin", "none")
        try:
            return origin is None or urlsplit(origin).netloc == headers.get("host")
        except ValueError:
            return False


class Authentication:
    """Sets `request.state.scope` to the caller's scope, and counts the request. Without a scope: status 401.

    An address that sends many requests without a session is refused before `authenticate`, so that it can neither guess
    sessions nor keep the product's session store at work.
    """

    def __init__(self, app: ASGIApp, authenticate: Authenticate, rates: RequestRates) -> None:
        self._app = app
        self._authenticate = authenticate
        self._rates = rates

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer a request. Raises `HTTPException`, also for a websocket, which nothing here authenticates."""
        if connection["type"] != "http":
            raise HTTPException(403, "only HTTP is served here")
        request = Request(connection)
        address = "" if request.client is None else request.client.host
        self._rates.check_address(address)
        found = self._authenticate(request)
        scope = await found if inspect.isawaitable(found) else found
        if scope is None:
            self._rates.refuse(address)
            raise HTTPException(401, "sign in first")
        if not isinstance(scope, Scope):
            raise TypeError(f"authenticate returned {scope!r:.80}: return a Scope or None")
        self._rates.take(scope)
        request.state.scope = scope
        await self._app(connection, receive, send)


class BodyLimit:
    """Refuses bodies that are larger than *most_bytes*, as they arrive, or slower than *seconds*.

    *by_path* has other sizes. Without a time limit, a client could keep connections for ever with a byte now and then.
    """

    def __init__(self, app: ASGIApp, most_bytes: int, seconds: float, by_path: Mapping[str, int]) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._by_path = by_path

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer a request. Raises `HTTPException`."""
        most, received, complete = self._by_path.get(path_below_mount(connection), self._most_bytes), 0, False
        end = asyncio.get_running_loop().time() + self._seconds

        async def receive_within() -> Message:
            nonlocal received, complete
            try:
                async with asyncio.timeout_at(None if complete else end):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(408, f"the body has not arrived within {self._seconds:g} seconds") from error
            complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, f"the body has more than {most:,} bytes")
            return message

        stated = Headers(scope=connection).get("content-length", "")
        if stated.isdecimal() and int(stated) > most:
            raise HTTPException(413, f"the body has {int(stated):,} bytes; at most {most:,} are allowed")
        await self._app(connection, receive_within, send)


def single_user(scope: Scope, token: str = "") -> Authenticate:
    """Return a function that authenticates every request as *scope*, if it sends *token* as a bearer token."""
    expected = f"Bearer {token}".encode()

    def authenticate(request: Request) -> Scope | None:
        sent = request.headers.get("authorization", "").encode()
        return scope if not token or hmac.compare_digest(sent, expected) else None

    return authenticate


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine reach *host*."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Return a `Host` header in lower case without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
