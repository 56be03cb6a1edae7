"""An exchange of streamable HTTP: a request, and an answer or a stream."""

from __future__ import annotations

import asyncio

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from ..event_source import FLUSH
from ..protocols.http import counted, scope_of
from ..server_state import Closing, state_of


class Exchange(Response):
    """Passes a request to its session. It counts among the streams of the scope, and ends when the server closes.

    A session belongs to the scope that has opened it: to any other, it does not exist.
    """

    def __init__(self, request: Request, sessions: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._request = request
        self._sessions = sessions
        state = state_of(request)
        self._closing = Closing() if state is None else state.closing

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer the request. Raises `HTTPException` with status 429 if too many streams are open."""
        owner = AccessToken(token="", client_id=scope_of(self._request).key, scopes=[])
        connection = {**scope, "user": AuthenticatedUser(owner)}
        with counted(self._request):
            answering = asyncio.create_task(self._sessions.handle_request(connection, receive, send))
            closing = self._closing.future()
            try:
                await asyncio.wait([answering, closing], return_when=asyncio.FIRST_COMPLETED)
                # By now all runs are parked, and their calls are answered at once. The stream of a session never ends.
                await asyncio.wait([answering], timeout=FLUSH)
            finally:
                closing.cancel()
                answering.cancel()
                await asyncio.gather(answering, closing, return_exceptions=True)
            if not answering.cancelled():
                answering.result()
            elif scope["method"] == "GET":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
