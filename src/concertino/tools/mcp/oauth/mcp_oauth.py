"""`McpOAuth`: logins of users to MCP servers, as the product sees them."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError, PKCEParameters
from mcp.client.auth.utils import (
    get_client_metadata_scopes,
    issuers_match,
    should_use_client_metadata_url,
    union_scopes,
    validate_authorization_response_iss,
)
from mcp.shared.auth import OAuthMetadata

from ....errors import ConfigurationError, RunStateError
from ....ids import digest
from ....records import record
from ....scope import Scope
from ....waits import ASK_PERSON, Wait
from ...web.addresses import is_local
from .discovery import Discovered, discover, register
from .grants import Grants
from .guarded_client import GuardedClient
from .login_values import AuthorizationServer, Challenge, LoginError, OAuthClient, PendingLogin, Secrets
from .token_endpoint import TokenRefusedError, exchange
from .user_auth import UserAuth

_STATE_BYTES = 32
_REFUSED = "the user has not logged in"


class _Waits(Protocol):
    async def waits(self, scope: Scope, /, *, limit: int, after: Wait | None) -> Sequence[Wait]: ...


class Runs(Protocol):
    """The runs that wait for logins: a `Runtime`."""

    @property
    def store(self) -> _Waits:
        """The store with their waits."""

    async def resolve(self, scope: Scope, key: str, content: Any, *, failed: bool = False) -> Any:
        """Answer a wait."""


class LoginServer(Protocol):
    """The MCP server of a login: an `McpServer`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def url(self) -> str:
        """Its endpoint."""


@record(kw_only=True)
class LoginOutcome:
    """The end of a login."""

    server: str
    """The name of the MCP server."""
    accepted: bool
    """False if the user has refused it."""


class McpOAuth:
    """Logins of users to MCP servers by OAuth 2.1. The tokens are in *vault*, a `storage.Vault`.

    *redirect_uri* is the URL of the product to which authorization servers send users back; there and one level below
    it, call `finish`. *clients* are used with the authorization servers that they name. Any other server gets
    *client_metadata_url* if it reads metadata documents and names itself in its answers. Otherwise, a client
    *client_name* is registered, once for each tenant, with its own URL below *redirect_uri*, so that a hostile server
    cannot pass another one's code off as its own (RFC 9700, section 4.4). *allow_private* permits authorization servers
    at private addresses.

    Raises `ConfigurationError` if an argument is invalid.
    """

    def __init__(
        self,
        vault: Secrets,
        redirect_uri: str,
        *,
        client_name: str = "concertino",
        client_metadata_url: str = "",
        clients: Sequence[OAuthClient] = (),
        allow_private: bool = False,
    ) -> None:
        if not redirect_uri.startswith("https://") and not is_local(redirect_uri):
            raise ConfigurationError(
                f"McpOAuth(redirect_uri={redirect_uri!r:.80}): use an https address of the product"
            )
        if client_metadata_url and urlsplit(client_metadata_url).scheme != "https":
            raise ConfigurationError(f"McpOAuth(client_metadata_url={client_metadata_url!r:.80}): use an https address")
        self._vault = vault
        self._grants = Grants(self._vault, self._client, self._forget_client)
        self._redirect_uri = redirect_uri
        self._client_name = client_name
        self._client_metadata_url = client_metadata_url
        self._clients = tuple(clients)
        self._allow_private = allow_private

    async def begin(self, server: LoginServer, scope: Scope, challenge: Challenge | None = None) -> str:
        """Return the address at which the user of *scope* logs in to *server*; the same until the login is finished.

        *challenge* is the server's statement when it refused a request. Raises `LoginError` if the server offers no
        login that can be trusted.
        """
        challenge = challenge or Challenge()
        while True:
            value, version = await self._vault.get(scope, _login_name(server.name))
            known = None if value is None else _pending(value)
            if known is not None and _fits(known, server, self._redirect_uri, challenge):
                return known.url
            grant, _ = await self._grants.stored(scope, server.name, server.url)
            made = await self._new_login(server, scope, challenge, "" if grant is None else grant.scopes)
            if await self._vault.put(scope, _login_name(server.name), asdict(made), version=version):
                return made.url

    async def finish(self, runtime: Runs, scope: Scope, url: str) -> LoginOutcome:
        """Complete a login with the *url* of the request to the redirect address, and answer all runs that wait for it.

        Only the query and the last part of the path of *url* are used, because a proxy may have changed the rest.
        *scope* is that of the product's own session, so that no user completes the login of another one. A refusal by
        the user is an outcome, too. Raises `LoginError`, whose message may be shown to the user.
        """
        found = urlsplit(url)
        answer = dict(parse_qsl(found.query, keep_blank_values=True))
        name = answer.get("state", "").rpartition(".")[0]
        value, version = await self._vault.get(scope, _login_name(name))
        if value is None or not secrets.compare_digest(value["state"].encode(), answer["state"].encode()):
            raise LoginError("no login of yours is in progress here: use the newest link, or it is complete")
        login = _pending(value)
        if _last(found.path) != _last(urlsplit(login.redirect_uri).path):
            raise LoginError("the answer came to the address of another authorization server")
        try:
            validate_authorization_response_iss(answer.get("iss"), OAuthMetadata.model_validate(login.server.metadata))
        except OAuthFlowError:
            raise LoginError("the answer comes from another authorization server") from None
        if not answer.get("error"):
            await self._complete(scope, name, login, answer.get("code", ""))
        elif answer["error"] != "access_denied":
            raise LoginError("the authorization server has not completed the login: try the link again")
        accepted = not answer.get("error")
        await self._answer_waits(runtime, scope, name, accepted=accepted)
        if accepted:
            await self._vault.delete(scope, _login_name(name), version=version)
        return LoginOutcome(server=name, accepted=accepted)

    async def is_logged_in(self, server: LoginServer, scope: Scope) -> bool:
        """Return whether there are tokens of *scope* for *server*. The server may have revoked them."""
        return (await self._grants.stored(scope, server.name, server.url))[0] is not None

    async def log_out(self, server: LoginServer, scope: Scope) -> bool:
        """Erase the tokens of *scope* for *server*, then revoke them if its authorization server supports this.

        Return whether they were revoked.
        """
        await self._vault.delete(scope, _login_name(server.name))
        return await self._grants.forget(scope, server.name)

    def auth(self, server: LoginServer, scope: Scope) -> httpx2.Auth:
        """Return the authorization of the requests of *scope* to *server*."""
        return UserAuth(self._grants, scope, server.name, server.url)

    # -- one login -----------------------------------------------------------------------------------------------

    async def _new_login(self, server: LoginServer, scope: Scope, challenge: Challenge, granted: str) -> PendingLogin:
        client = self._client(server.url)
        found = await discover(client, server.url, challenge)
        wanted = get_client_metadata_scopes(
            challenge.scopes or None, found.resource_metadata, found.metadata, ["authorization_code", "refresh_token"]
        )
        scopes = union_scopes(granted, wanted) or ""
        pkce = PKCEParameters.generate()
        state = f"{server.name}.{secrets.token_urlsafe(_STATE_BYTES)}"
        registered, redirect_uri = await self._registration(client, scope, found, scopes)
        known = AuthorizationServer(
            metadata=found.metadata.model_dump(mode="json", exclude_none=True),
            client=registered,
            resource=found.resource,
        )
        query = {
            "response_type": "code",
            "client_id": known.client["client_id"],
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
            "resource": known.resource,
        }
        if scopes:
            query["scope"] = scopes
        if "offline_access" in scopes.split():
            query["prompt"] = "consent"  # OpenID Connect Core, section 11
        page = str(found.metadata.authorization_endpoint)
        return PendingLogin(
            server=known,
            server_url=server.url,
            state=state,
            verifier=pkce.code_verifier,
            redirect_uri=redirect_uri,
            scopes=scopes,
            url=client.checked(f"{page}{'&' if urlsplit(page).query else '?'}{urlencode(query)}"),
        )

    async def _registration(
        self, client: GuardedClient, scope: Scope, found: Discovered, scopes: str
    ) -> tuple[dict[str, Any], str]:
        """Return the client with this authorization server, and the address to which it sends users back."""
        own = next((each for each in self._clients if issuers_match(each.issuer, found.issuer)), None)
        if own is not None:
            method = "client_secret_post" if own.client_secret else "none"
            supported = found.metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
            if own.client_secret and method not in supported:
                method = "client_secret_basic"
            made = {
                "client_id": own.client_id,
                "client_secret": own.client_secret,
                "token_endpoint_auth_method": method,
            }
            return made, self._redirect_uri
        names_itself = found.metadata.authorization_response_iss_parameter_supported
        if names_itself and should_use_client_metadata_url(found.metadata, self._client_metadata_url):
            made = {"client_id": self._client_metadata_url, "token_endpoint_auth_method": "none"}
            return made, self._redirect_uri
        redirect_uri = _address_of(self._redirect_uri, found.issuer)
        tenant, name = Scope(scope.tenant), self._client_name_in_vault(found.issuer)
        while True:
            kept, version = await self._vault.get(tenant, name)
            if kept is not None and not 0 < kept["client"].get("client_secret_expires_at", 0) < time.time():
                return dict(kept["client"]), redirect_uri
            made = await register(client, found, redirect_uri, self._client_name, scopes)
            if await self._vault.put(tenant, name, {"client": made}, version=version):
                return made, redirect_uri

    async def _complete(self, scope: Scope, name: str, login: PendingLogin, code: str) -> None:
        grant, _ = await self._grants.stored(scope, name, login.server_url)
        if grant is not None and grant.state == login.state:
            return  # an earlier process stored the tokens, and was killed before it answered the runs
        try:
            made = await exchange(self._client(login.server_url), login, code)
        except TokenRefusedError as error:
            if error.code != "invalid_grant":
                await self._vault.delete(scope, _login_name(name))
                await self._forget_client(scope, login.server.issuer)
            raise
        await self._grants.keep(scope, name, made)

    async def _answer_waits(self, runtime: Runs, scope: Scope, server: str, *, accepted: bool) -> None:
        after: Wait | None = None
        while page := await runtime.store.waits(scope, limit=100, after=after):
            for wait in page:
                if wait.tool == ASK_PERSON and _login_of(wait) == server:
                    try:
                        await runtime.resolve(scope, wait.key, "" if accepted else _REFUSED, failed=not accepted)
                    except RunStateError:  # the run has just ended
                        continue
            after = page[-1]

    def _client(self, server_url: str) -> GuardedClient:
        return GuardedClient(local=is_local(server_url), allow_private=self._allow_private)

    async def _forget_client(self, scope: Scope, issuer: str) -> None:
        """Let another client be registered, because the authorization server does not know this one any more."""
        await self._vault.delete(Scope(scope.tenant), self._client_name_in_vault(issuer))

    def _client_name_in_vault(self, issuer: str) -> str:
        return f"mcp.client.{digest(f'{issuer} {self._redirect_uri}')}"


def _login_name(server: str) -> str:
    return f"mcp.login.{server}"


def _pending(value: dict[str, Any]) -> PendingLogin:
    return PendingLogin(**{**value, "server": AuthorizationServer(**value["server"])})


def _fits(login: PendingLogin, server: LoginServer, redirect_uri: str, challenge: Challenge) -> bool:
    """Return whether a login in progress is to this server, and for all scopes that it asks for."""
    addresses = (redirect_uri, _address_of(redirect_uri, login.server.issuer))
    same = login.server_url == server.url and login.redirect_uri in addresses
    return same and set(challenge.scopes.split()) <= set(login.scopes.split())


def _address_of(redirect_uri: str, issuer: str) -> str:
    return f"{redirect_uri.rstrip('/')}/{digest(issuer)}"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _login_of(wait: Wait) -> str | None:
    """Return the name of the server whose login a question waits for."""
    try:
        found = json.loads(wait.arguments or "{}")
    except ValueError:
        return None
    return found.get("login") if isinstance(found, dict) else None
