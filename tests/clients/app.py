"""An application with all protocols and the agents of the conformance scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from concertino import Resources, Runtime, Scope
from concertino.server.protocols import ag_ui, ai_sdk, openai
from concertino.storage import Store
from concertino.testing import conformance
from concertino.testing.conformance import Conformance, ConformanceModel, TypedConformance


class Authentication:
    """Makes the scope of the token: `Bearer ann`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            user = dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer ")
            scope.setdefault("state", {})["scope"] = Scope("acme", user)
        await self.app(scope, receive, send)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


async def set_pace(request: Request) -> Response:
    """Set the seconds between two words of a slow answer, so that it cannot end before a client has seen its middle."""
    conformance.PAUSE = request.path_params["seconds"]
    return Response(status_code=204)


def runtime_on(store: Store) -> Runtime:
    """Return one process's runtime."""
    agents = (Conformance(), TypedConformance())
    return Runtime(agents, Resources(model=ConformanceModel(), store=store), sweep=0.02)


@asynccontextmanager
async def served(runtime: Runtime) -> AsyncIterator[str]:
    """Serve *runtime* on a free port of this machine, and yield the address."""
    mounts = [
        Mount("/api/chat", routes=ai_sdk.routes(runtime)),
        Mount("/api/typed", routes=ai_sdk.routes(runtime, agent="conformance_typed")),
        Mount("/agui", routes=ag_ui.routes(runtime)),
        Mount("/v1", routes=openai.routes(runtime)),
    ]
    pause = conformance.PAUSE
    app = Starlette(
        routes=[Route("/pace/{seconds:float}", set_pace, methods=["POST"]), *mounts],
        middleware=[Middleware(Authentication)],
    )
    server = _Server(uvicorn.Config(app, port=0, log_level="warning", ws="none", timeout_graceful_shutdown=5))
    async with runtime:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # noqa: ASYNC110 - it has no event to await
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            conformance.PAUSE = pause
            server.should_exit = True
            await serving
