"""An MCP server that wants its users to log in, with an authorization server of the SDK; both on one port."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import ToolAnnotations
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.responses import JSONResponse


class Accounts:
    """The authorization server: it knows clients, codes and tokens, and lets the user in without a question."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.user = "Ann"
        """Who is in front of the browser."""
        self.denies = False
        self.expires_in = 3600
        self.refreshed = 0
        self.refreshes: asyncio.Event | None = None
        """If set, a refresh is answered after this event; it has then replaced the old tokens."""
        self.resources: list[str | None] = []
        """Of each authorization."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.denies:
            raise AuthorizeError("access_denied")
        self.resources.append(params.resource)
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or [],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
            subject=self.user,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue(client.client_id, authorization_code.scopes, authorization_code.subject)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]  # each is of one use
        self.refreshed += 1
        made = self.issue(client.client_id, scopes, refresh_token.subject)
        if self.refreshes is not None:
            await self.refreshes.wait()
        return made

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoke_all()

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        raise NotImplementedError

    def issue(self, client_id: str, scopes: list[str], subject: str | None) -> OAuthToken:
        """Return new tokens."""
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, subject=subject)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, subject=subject)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.expires_in, scope=" ".join(scopes)
        )

    def expire(self) -> None:
        """Let all access tokens expire now."""
        self.access.clear()

    def revoke_all(self) -> None:
        """Revoke all tokens."""
        self.access.clear()
        self.refresh.clear()


class GuardedServer:
    """The MCP server at *url*, and its *accounts*."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.url = ""
        self.calls: list[str] = []
        """Who has called `note`."""
        self.replaced: dict[str, Any] = {}
        """By path: what is answered instead, as JSON or by an ASGI application."""

    def app(self) -> Starlette:
        """Return the application, for the port of *url*."""
        issuer = AnyHttpUrl(self.url.removesuffix("/mcp"))
        server = MCPServer(
            "guarded",
            auth_server_provider=self.accounts,
            auth=AuthSettings(
                issuer_url=issuer,
                resource_server_url=AnyHttpUrl(self.url),
                required_scopes=["notes"],
                validate_token_resource=False,
                client_registration_options=ClientRegistrationOptions(
                    enabled=True, valid_scopes=["notes", "more"], default_scopes=["notes"]
                ),
                revocation_options=RevocationOptions(enabled=True),
            ),
        )

        @server.tool(annotations=ToolAnnotations(destructive_hint=False))
        def note(text: str) -> str:
            """Write a note."""
            found = get_access_token()
            assert found is not None
            self.calls.append(str(found.subject))
            return f"{text} by {found.subject}"

        return server.streamable_http_app()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; metadata may be replaced."""
        replaced = self.replaced.get(scope.get("path", "")) if scope["type"] == "http" else None
        if replaced is None:
            await self._inner(scope, receive, send)
        else:
            response = replaced if callable(replaced) else JSONResponse(replaced)
            await response(scope, receive, send)

    def start(self, url: str) -> None:
        """Serve at *url*."""
        self.url = url
        self._inner = self.app()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


@asynccontextmanager
async def serving() -> AsyncIterator[GuardedServer]:
    """Run a guarded server in this event loop."""
    guarded = GuardedServer()
    listening = socket.create_server(("127.0.0.1", 0))
    guarded.start(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    config = uvicorn.Config(
        guarded.answer, interface="asgi3", log_level="error", ws="none", timeout_graceful_shutdown=1
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve([listening]))
    while not server.started and not task.done():  # noqa: ASYNC110 - it has no event to await
        await asyncio.sleep(0.01)
    yield guarded
    server.should_exit = True
    await task


async def browse(url: str) -> str:
    """Open a login page as the user's browser does, and return the address to which it is sent back."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = await client.get(url)
    assert response.status_code == 302, response.text
    return str(response.headers["location"])
