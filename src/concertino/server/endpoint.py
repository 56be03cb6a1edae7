"""Endpoints: functions whose signature describes a request and its answer.

The routes and the OpenAPI document are made from the same descriptions. A parameter is a part of the path, or `query`,
`headers` or `body` with a pydantic model; the annotation of the return value describes the answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..records import record
from ..runtime import Runtime
from ..scope import Scope
from .error_form import InvalidRequestError
from .json_body import JSON, json_body
from .server_state import ServerState

Function = Callable[..., Awaitable[Any]]


@record
class ApiCall:
    """A request to an endpoint."""

    request: Request

    @property
    def state(self) -> ServerState:
        """The state of the application."""
        found: ServerState = self.request.app.state.server
        return found

    @property
    def runtime(self) -> Runtime:
        """The application's runtime."""
        return self.state.runtime

    @property
    def scope(self) -> Scope:
        """The scope of the person who asks."""
        found: Scope = self.request.state.scope
        return found


class ApiEndpoint:
    """A method of a path."""

    def __init__(
        self, tag: str, method: str, path: str, function: Function, status: int, content: Sequence[str], *, starts: bool
    ) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.tag = tag
        self.method = method
        self.path = path
        self.name = function.__name__
        self.summary = inspect.getdoc(function) or ""
        self.answer = hints.pop("return")
        """The type of the answer; None for an answer without a body, `Response` for one that is not JSON."""
        self.status = status
        self.content = content
        """The media types of a body or an answer that is not JSON."""
        self.starts = starts
        """Whether it starts work, which a process that drains refuses."""
        self.models: dict[str, type[BaseModel]] = {
            name: hints[name] for name in ("query", "headers", "body") if name in hints
        }
        """The models of the request by the name of their parameter."""
        self._function = function
        is_json = self.answer not in (type(None), Response)
        self._adapter: TypeAdapter[Any] | None = TypeAdapter(self.answer) if is_json else None

    async def answer_to(self, request: Request) -> Response:
        """Answer a request. Raises `HTTPException` if it is not as described."""
        call = ApiCall(request)
        if self.starts:
            call.state.check_open()
        values: dict[str, Any] = dict(request.path_params)
        if any("\0" in value for value in values.values()):
            raise HTTPException(404, "not found")
        for name, model in self.models.items():
            values[name] = await _READERS[name](request, model)
        found = await self._function(call, **values)
        if isinstance(found, Response):
            return found
        if self._adapter is None:
            return Response(status_code=204)
        return Response(self._adapter.dump_json(found), self.status, media_type=JSON)


class Endpoints:
    """Endpoints under one tag of the document; calling it decorates a function."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[ApiEndpoint] = []

    def __call__(
        self, method: str, path: str, *, status: int = 200, content: Sequence[str] = (), starts: bool = False
    ) -> Callable[[Function], Function]:
        """Return a decorator that makes a function the endpoint of *method* and *path*."""

        def decorate(function: Function) -> Function:
            self.all.append(ApiEndpoint(self.tag, method, path, function, status, content, starts=starts))
            return function

        return decorate


def routes_of(endpoints: Sequence[ApiEndpoint]) -> list[Route]:
    """Return one route for each path, so that a wrong method is answered with all that are right."""
    by_path: dict[str, dict[str, ApiEndpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [Route(path, _dispatch(methods), methods=list(methods)) for path, methods in by_path.items()]


def _dispatch(methods: dict[str, ApiEndpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def dispatch(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method].answer_to(request)

    return dispatch


async def _query(request: Request, model: type[BaseModel]) -> BaseModel:
    return _checked(model.model_validate_strings, dict(request.query_params))


async def _headers(request: Request, model: type[BaseModel]) -> BaseModel:
    names = [field.alias or name for name, field in model.model_fields.items()]
    return _checked(
        model.model_validate_strings, {name: request.headers[name] for name in names if name in request.headers}
    )


async def _body(request: Request, model: type[BaseModel]) -> BaseModel:
    return _checked(model.model_validate_json, await json_body(request))


_READERS = {"query": _query, "headers": _headers, "body": _body}


def _checked(validate: Callable[[Any], BaseModel], given: Any) -> BaseModel:
    try:
        return validate(given)
    except ValidationError as error:
        raise InvalidRequestError(
            error.errors(include_url=False, include_context=False, include_input=False)
        ) from error
