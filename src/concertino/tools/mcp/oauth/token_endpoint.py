"""Requests to the token and revocation endpoints of an authorization server."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import quote

import httpx2
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError
from pydantic_core import from_json

from .guarded_client import GuardedClient
from .login_values import AuthorizationServer, Grant, LoginError, PendingLogin

_FINAL = {"invalid_grant", "invalid_client", "unauthorized_client"}


class TokenRefusedError(LoginError):
    """The authorization server has refused a code or a refresh token for good."""

    def __init__(self, server: str, code: str) -> None:
        super().__init__(f"the authorization server {server} refuses the login: {code}")
        self.code = code


async def exchange(client: GuardedClient, login: PendingLogin, code: str) -> Grant:
    """Return the tokens for a *code*. Raises `LoginError`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": login.redirect_uri,
        "code_verifier": login.verifier,
    }
    found = await _tokens(client, login.server, form)
    return _grant(login.server, login.server_url, found, scopes=found.scope or login.scopes, state=login.state)


async def refresh(client: GuardedClient, grant: Grant) -> Grant:
    """Refresh the tokens of *grant*, and return the new ones. Raises `TokenRefusedError` and `LoginError`."""
    found = await _tokens(client, grant.server, {"grant_type": "refresh_token", "refresh_token": grant.refresh_token})
    found.refresh_token = found.refresh_token or grant.refresh_token
    return _grant(grant.server, grant.server_url, found, scopes=found.scope or grant.scopes, state=grant.state)


async def revoke(client: GuardedClient, grant: Grant) -> bool:
    """Revoke the tokens of *grant* (RFC 7009). Return whether the server did. Raises `LoginError`."""
    address = grant.server.metadata.get("revocation_endpoint")
    if not address:
        return False
    kind = "refresh_token" if grant.refresh_token else "access_token"
    form = {"token": grant.refresh_token or grant.access_token, "token_type_hint": kind}
    return (await _post(client, grant.server, str(address), form)).status_code == 200


async def _tokens(client: GuardedClient, server: AuthorizationServer, form: dict[str, str]) -> OAuthToken:
    address = str(server.metadata["token_endpoint"])
    response = await _post(client, server, address, {**form, "resource": server.resource})
    issuer = server.issuer
    if response.status_code not in (200, 201):
        code = _error_code(response)
        if code in _FINAL:
            raise TokenRefusedError(issuer, code)
        raise LoginError(f"the authorization server {issuer} fails: {code or f'status {response.status_code}'}")
    try:
        return OAuthToken.model_validate_json(response.content)
    except ValidationError:  # its text contains the tokens
        raise LoginError(f"the authorization server {issuer} returns invalid tokens") from None


async def _post(
    client: GuardedClient, server: AuthorizationServer, address: str, form: dict[str, str]
) -> httpx2.Response:
    registered = server.client
    form = {**form, "client_id": registered["client_id"]}
    headers = {"Accept": "application/json"}
    secret, method = registered.get("client_secret"), registered.get("token_endpoint_auth_method")
    if secret and method == "client_secret_basic":
        pair = (quote(each, safe="") for each in (registered["client_id"], secret))  # RFC 6749, section 2.3.1
        headers["Authorization"] = httpx2.BasicAuth(*pair)._auth_header
    elif secret and method != "none":
        form["client_secret"] = secret
    return await client.send(httpx2.Request("POST", address, data=form, headers=headers))


def _error_code(response: httpx2.Response) -> str:
    """Return the error code (RFC 6749, section 5.2); "" without a plausible one. The description is not trusted."""
    try:
        found: Any = from_json(response.content)
    except ValueError:
        return ""
    code = found.get("error") if isinstance(found, dict) else None
    return code if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,40}", code) else ""


def _grant(server: AuthorizationServer, url: str, found: OAuthToken, *, scopes: str, state: str) -> Grant:
    return Grant(
        server=server,
        server_url=url,
        access_token=found.access_token,
        refresh_token=found.refresh_token or "",
        expires=None if found.expires_in is None else time.time() + found.expires_in,
        scopes=scopes,
        state=state,
    )
