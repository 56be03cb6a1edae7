"""`UserAuth`: the authorization of one user's requests to one MCP server."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from ....errors import ConcertinoError
from ....scope import Scope
from .grants import Grants
from .login_values import Challenge, Grant
from .refused_requests import current_refusal


class UserAuth(httpx2.Auth):
    """Sends the tokens of *scope*, and refreshes them when they expire, also in the course of a call.

    A refused request has had no effect. The SDK gets the server's own answer, and the call its `RefusedRequests`.
    """

    def __init__(self, grants: Grants, scope: Scope, server: str, url: str) -> None:
        self._grants = grants
        self._scope, self._server, self._url = scope, server, url

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Authorize *request*, and once more if its token is refused."""
        refusal = current_refusal(self._server)
        grant: Grant | None = None
        # An error that is raised here would break the connection, and all of its calls.
        try:
            grant = await self._grants.current(self._scope, self._server, self._url)
        except ConcertinoError as error:
            refusal.problem = error
        response = yield _authorized(request, grant)
        if response.status_code == 401 and grant is not None:
            try:
                grant = await self._grants.renewed(self._scope, self._server, grant)
            except ConcertinoError as error:
                refusal.problem, grant = error, None
            if grant is not None:
                response = yield _authorized(request, grant)
        error_code = extract_field_from_www_auth(response, "error")
        if response.status_code == 401 or (response.status_code == 403 and error_code == "insufficient_scope"):
            refusal.challenge = Challenge(
                metadata_url=extract_resource_metadata_from_www_auth(response) or "",
                scopes=extract_scope_from_www_auth(response) or "",
            )


def _authorized(request: httpx2.Request, grant: Grant | None) -> httpx2.Request:
    if grant is not None:
        request.headers["Authorization"] = f"Bearer {grant.access_token}"
    return request
