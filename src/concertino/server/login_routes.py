"""The page to which authorization servers send users back after a login to an MCP server."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ..errors import ConcertinoError

if TYPE_CHECKING:
    from ..tools.mcp import McpOAuth


def login_routes(oauth: McpOAuth) -> list[Route]:
    """Return the routes that complete the logins of *oauth*, for `create_app(routes={"/mcp": ...})`.

    They are `/mcp/callback` and the addresses one level below it.

    The product's `authenticate` must recognize the user without a header of the product's own, for example by a cookie
    that is `SameSite=Lax`, because another site sends the browser here.
    """

    async def callback(request: Request) -> Response:
        try:
            outcome = await oauth.finish(request.app.state.server.runtime, request.state.scope, str(request.url))
        except ConcertinoError as error:
            return _page(str(error), 400)
        done = "You have logged in to" if outcome.accepted else "You have not logged in to"
        return _page(f"{done} {outcome.server}. You can close this page.")

    return [Route("/callback", callback), Route("/callback/{issuer}", callback)]


def _page(text: str, status: int = 200) -> Response:
    return HTMLResponse(f"<!doctype html><meta charset=utf-8><title>Login</title><p>{escape(text)}</p>", status)
