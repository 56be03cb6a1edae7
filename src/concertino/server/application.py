"""`create_app`: the web API of a runtime, as a Starlette application that a product mounts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from ..errors import ConcertinoError
from ..runtime import Runtime
from .account_endpoints import account, file_endpoints
from .conversation_endpoints import conversations, turns
from .endpoint import ApiEndpoint, routes_of
from .error_form import ErrorForms
from .file_folder import FileFolder
from .json_body import JSON
from .openapi import openapi_document
from .protection import Authenticate, Authentication, BodyLimit, FailureForm, OriginGuard, SecurityHeaders
from .request_limits import RequestRates, ServerLimits
from .run_endpoints import approvals, runs
from .server_state import RETRY_AFTER, ServerState
from .worker_endpoints import workers

_EXPOSED = ("Retry-After", "Content-Disposition", "x-vercel-ai-ui-message-stream")


def create_app(
    runtime: Runtime,
    authenticate: Authenticate,
    *,
    agents: Sequence[str] | None = None,
    files: FileFolder | None = None,
    limits: ServerLimits | None = None,
    origins: Sequence[str] = (),
    hosts: Sequence[str] = (),
    routes: Mapping[str, Sequence[BaseRoute]] | None = None,
) -> Starlette:
    """Return the web API of *runtime*, which the caller enters before and closes afterwards.

    *authenticate* returns the scope of each request; the request cannot change it. Users may talk to *agents*, by
    default all of the runtime; the first one is the default of a conversation. Without *files*, there are no uploads.
    Pages of *origins*, such as `https://chat.example.com`, may call the API from a browser. Only requests to the host
    names *hosts* are answered, by default all. *routes* has further routes by the path below which they are mounted,
    such as those of a front-end protocol below `/v1`: they have the same protection, and read `request.state.scope`.

    Raises `ConfigurationError` if the runtime lacks one of the agents.
    """
    limits = limits or ServerLimits()
    rates = RequestRates(limits)
    forms = ErrorForms(routes or {})
    groups = [conversations, turns, runs, approvals, workers, account]
    uploads: dict[str, int] = {}
    if files is not None:
        groups.append(file_endpoints(files.types))
        uploads = {"/api/files": files.most_bytes}
    endpoints = [endpoint for group in groups for endpoint in group.all]
    protected = Mount(
        "",
        routes=[
            *(_below(prefix, route) for prefix, found in (routes or {}).items() for route in found),
            *routes_of(endpoints),
        ],
        middleware=[
            Middleware(OriginGuard, origins=origins, hosts=hosts),
            Middleware(Authentication, authenticate=authenticate, rates=rates),
            Middleware(BodyLimit, most_bytes=limits.body_bytes, seconds=limits.body_seconds, by_path=uploads),
        ],
    )
    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/ready", _ready),
            Route("/api/openapi.json", _document(endpoints)),
            protected,
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "x-ai-sdk-version"],
                allow_credentials=True,
                expose_headers=_EXPOSED,
            ),
            Middleware(FailureForm, forms=forms),
        ],
        exception_handlers={HTTPException: forms.response, ConcertinoError: forms.response},
    )
    app.state.server = ServerState(runtime, agents, files, rates)
    return app


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _ready(request: Request) -> Response:
    """Answer 503 while the process drains, so that a proxy sends it nothing new, or if the store cannot be read."""
    state: ServerState = request.app.state.server
    if state.draining:
        return JSONResponse({"status": "draining"}, 503, RETRY_AFTER)
    await state.store_check.passed()
    return JSONResponse({"status": "ready"})


def _below(prefix: str, route: BaseRoute) -> BaseRoute:
    """Return a route below *prefix*, where `/` is the prefix itself. A process that drains refuses its POST."""
    if not isinstance(route, Route):
        return Mount(prefix, routes=[route])

    async def answer(request: Request) -> Response:
        if request.method == "POST":
            request.app.state.server.check_open()
        found: Response = await route.endpoint(request)
        return found

    return Route(prefix + route.path.rstrip("/") or "/", answer, methods=list(route.methods or ()))


def _document(endpoints: Sequence[ApiEndpoint]) -> Callable[[Request], Awaitable[Response]]:
    # Written once: requests for it need no session, and have no rate.
    document = json.dumps(openapi_document(endpoints), separators=(",", ":")).encode()

    async def answer(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        servers = f'{{"servers":[{{"url":{json.dumps(root)}}}],'.encode() if root else b"{"
        return Response(servers + document.removeprefix(b"{"), media_type=JSON)

    return answer
