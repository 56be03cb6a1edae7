"""`Grants`: the tokens of all users. Of several processes, one refreshes those of a user at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict

from ....scope import Scope
from .guarded_client import REQUEST_SECONDS, GuardedClient
from .login_values import AuthorizationServer, Grant, LoginError, Secrets
from .token_endpoint import TokenRefusedError, refresh, revoke

_CLAIM_SECONDS = REQUEST_SECONDS + 10
"""Longer than a refresh takes, so that a claim ends early only if its process has died."""
_POLL_SECONDS = 0.05


class Grants:
    """The tokens in *vault*.

    *client* returns what sends the requests of a login to a server, and *forget_client* erases the registration with an
    authorization server.
    """

    def __init__(
        self,
        vault: Secrets,
        client: Callable[[str], GuardedClient],
        forget_client: Callable[[Scope, str], Awaitable[None]],
    ) -> None:
        self._vault = vault
        self._forget_client = forget_client
        self._client = client

    async def stored(self, scope: Scope, server: str, url: str = "") -> tuple[Grant | None, int | None]:
        """Return the tokens of *scope* for the server of this name, and at *url* if given, and their version."""
        value, version = await self._vault.get(scope, _name(server))
        if value is None or (url and value["server_url"] != url):
            return None, version
        return Grant(**{**value, "server": AuthorizationServer(**value["server"])}), version

    async def current(self, scope: Scope, server: str, url: str) -> Grant | None:
        """Return the tokens to send, refreshed if they expire soon; None if the user has to log in.

        Raises `LoginError` if they have expired and cannot be refreshed now.
        """
        grant, _ = await self.stored(scope, server, url)
        if grant is None or not grant.expires_soon or not grant.refresh_token:
            return grant
        try:
            return await self.renewed(scope, server, grant)
        except LoginError:
            if grant.has_expired:
                raise
            return grant

    async def renewed(self, scope: Scope, server: str, refused: Grant) -> Grant | None:
        """Return newer tokens than the *refused* ones; None if the user has to log in.

        The refresh token may be of one use. A process that is killed after the server has replaced it, and before the
        new one is stored, loses it: the server then refuses the old one, the tokens are erased, and the user logs in
        again. Raises `LoginError` if the authorization server does not answer; the tokens stay.
        """
        while True:
            grant, version = await self.stored(scope, server, refused.server_url)
            if grant is None or version is None or grant.access_token != refused.access_token:
                return grant
            if not grant.refresh_token:
                return None
            if await self._vault.claim(scope, _name(server), version=version, seconds=_CLAIM_SECONDS):
                break
            await asyncio.sleep(_POLL_SECONDS)
        try:
            newer = await refresh(self._client(grant.server_url), grant)
        except TokenRefusedError as error:
            if error.code != "invalid_grant":  # otherwise the link of the next login would lead nowhere
                await self._forget_client(scope, grant.server.issuer)
            await self._vault.delete(scope, _name(server), version=version)
            return None
        except LoginError:
            await self._vault.put(scope, _name(server), asdict(grant), version=version)  # ends the claim
            raise
        if await self._vault.put(scope, _name(server), asdict(newer), version=version):
            return newer
        grant, _ = await self.stored(scope, server, refused.server_url)  # the user has logged in again, or out
        return grant

    async def keep(self, scope: Scope, server: str, grant: Grant) -> None:
        """Store the tokens of a login, whatever there was before."""
        while True:
            _, version = await self._vault.get(scope, _name(server))
            if await self._vault.put(scope, _name(server), asdict(grant), version=version):
                return

    async def forget(self, scope: Scope, server: str) -> bool:
        """Erase the tokens, then revoke them where the authorization server offers it. Return whether it has."""
        grant, _ = await self.stored(scope, server)
        await self._vault.delete(scope, _name(server))
        if grant is None:
            return False
        with suppress(LoginError):
            return await revoke(self._client(grant.server_url), grant)
        return False


def _name(server: str) -> str:
    return f"mcp.grant.{server}"
