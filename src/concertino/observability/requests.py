"""`TraceRequests`: a span and measurements for each request to an application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from time import time_ns
from typing import Any

from opentelemetry.context import attach, detach, get_current
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace import set_span_in_context as with_span

from . import names
from .metrics import Attributes
from .open_telemetry import OpenTelemetry

_Message = MutableMapping[str, Any]
_App = Callable[[_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]]


class TraceRequests:
    """ASGI middleware: `app.add_middleware(TraceRequests, telemetry=telemetry)`.

    The span continues the trace of the request's header, and runs that the request starts continue the span's. Not
    needed with OpenTelemetry's own instrumentation of ASGI, except for `concertino.server.active_streams`.
    """

    def __init__(self, app: _App, telemetry: OpenTelemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Answer a request of the type `http` inside of a span, and any other as it is."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        telemetry, metrics = self._telemetry, self._telemetry.metrics
        method = scope["method"] if scope["method"] in names.METHODS else names.OTHER_METHOD
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        labels: Attributes = {names.METHOD: method, names.SCHEME: scope.get("scheme", "http")}
        began = time_ns()
        parent = extract(headers, get_current())
        span = telemetry.tracer.start_span(
            method, parent, SpanKind.SERVER, labels | {names.PATH: scope["path"]}, start_time=began
        )
        token = attach(with_span(span, parent))
        answer: Attributes = {}
        metrics.active_requests(1, labels)

        async def sending(message: _Message) -> None:
            if message["type"] == "http.response.start":
                answer[names.HTTP_STATUS] = message["status"]
                kind = dict(message.get("headers", ())).get(b"content-type", b"")
                if kind.startswith(b"text/event-stream"):
                    answer["stream"] = True
                    metrics.active_streams(1)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            answer[names.ERROR] = type(error).__name__
            raise
        finally:
            detach(token)
            metrics.active_requests(-1, labels)
            if answer.pop("stream", False):
                metrics.active_streams(-1)
            if route := _route(scope):
                answer[names.ROUTE] = route
                span.update_name(f"{method} {route}")
            status = answer.get(names.HTTP_STATUS, 500)
            if status >= 500:
                answer.setdefault(names.ERROR, str(status))
            ended = time_ns()
            telemetry.background.put(metrics.request, (ended - began) / 1e9, labels | answer)
            telemetry.background.put(span.set_attributes, answer)
            if names.ERROR in answer:
                telemetry.background.put(span.set_status, Status(StatusCode.ERROR))
            telemetry.background.put(span.end, ended)


def _route(scope: _Message) -> str:
    """Return the path of the route that was found, with the names of its parameters; empty without one.

    Only paths of routes are values of a metric: there are as many other paths as a client makes up.
    """
    found: Any = scope.get("route")
    if not hasattr(found, "endpoint"):  # none, or a mount
        return ""
    path = str(found.path)
    given = {str(value): name for name, value in scope.get("path_params", {}).items() if f"{{{name}" not in path}
    mounted = [f"{{{given[part]}}}" if part in given else part for part in scope.get("root_path", "").split("/")]
    return "/".join(mounted) + path
