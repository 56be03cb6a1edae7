"""Values of a login: what the server asks for, a login in progress, and the tokens of a user."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from ....errors import ConcertinoError
from ....records import record
from ....scope import Scope

_LEEWAY = 30.0
"""A token is refreshed this many seconds before it expires."""


class LoginError(ConcertinoError):
    """A login to an MCP server failed. The message contains no token."""


@record(kw_only=True)
class Challenge:
    """A server's statement when it refuses a request: the address of its metadata, and the scopes that it asks for."""

    metadata_url: str = ""
    scopes: str = ""


class LoginRequiredError(ConcertinoError):
    """A server has refused a request, because the user has not logged in, or not with enough scopes."""

    def __init__(self, server: str, challenge: Challenge) -> None:
        super().__init__(f"{server} needs a login of the user: call {server}.log_in")
        self.challenge = challenge


@record(kw_only=True)
class OAuthClient:
    """A client that was registered with an authorization server by hand."""

    issuer: str
    """The authorization server, as its metadata name it. The client is used with no other."""
    client_id: str
    client_secret: str = field(default="", repr=False)
    """Empty for a public client."""


@record(kw_only=True)
class AuthorizationServer:
    """An authorization server, and the client with which it knows this product. Stored with each login."""

    metadata: dict[str, Any]
    """As published (RFC 8414), and checked."""
    client: dict[str, Any] = field(repr=False)
    """Its registration (RFC 7591)."""
    resource: str
    """The resource that tokens are for (RFC 8707)."""

    @property
    def issuer(self) -> str:
        """Its name."""
        return str(self.metadata["issuer"])


@record(kw_only=True)
class PendingLogin:
    """A login that has begun. All runs of the user that wait for the server share it."""

    server: AuthorizationServer
    server_url: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_uri: str
    scopes: str
    url: str = field(repr=False)
    """The page on which the user logs in."""


@record(kw_only=True)
class Grant:
    """The tokens of a user for one MCP server."""

    server: AuthorizationServer
    server_url: str
    """The MCP server. Its tokens are sent nowhere else, also if the product changes the address."""
    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires: float | None = None
    """In seconds since 1970, by the clock of this machine; None if it is unknown."""
    scopes: str = ""
    state: str = field(default="", repr=False)
    """The state of the login that it comes from."""

    @property
    def expires_soon(self) -> bool:
        """Return whether the access token should be refreshed before it is used."""
        return self.expires is not None and time.time() > self.expires - _LEEWAY

    @property
    def has_expired(self) -> bool:
        """Return whether the access token has expired."""
        return self.expires is not None and time.time() > self.expires


class Secrets(Protocol):
    """Keeps the secrets of users encrypted: a `storage.Vault`, which describes the methods."""

    async def get(self, scope: Scope, name: str) -> tuple[dict[str, Any] | None, int | None]:
        """Return a secret and its version."""

    async def put(self, scope: Scope, name: str, value: Mapping[str, Any], *, version: int | None) -> bool:
        """Replace or add a secret."""

    async def claim(self, scope: Scope, name: str, *, version: int, seconds: float) -> bool:
        """Claim a secret before it is replaced."""

    async def delete(self, scope: Scope, name: str, *, version: int | None = None) -> bool:
        """Erase a secret."""
