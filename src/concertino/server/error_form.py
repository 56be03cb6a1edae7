"""The one form of errors, and the status of each error of the library."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope as Connection

from ..errors import (
    ConcertinoError,
    ConfigurationError,
    ErasedError,
    LimitError,
    MissingExtraError,
    MissingKeyError,
    NotAllowedError,
    ResourcesError,
    RunStateError,
    StorageError,
    UnknownConversationError,
    UnknownModelError,
    UnknownProviderError,
    UnknownRunError,
    UnknownTurnError,
    UnknownWaitError,
)

log = logging.getLogger("concertino")
Handler = Callable[[Request], Awaitable[Response]]
OwnForm = Callable[[Request, Exception, int, str], Response | None]
"""Makes the answer of an error from its status and its text; None for the form of the API."""

_STATUS: Mapping[type[Exception], int] = {
    ConfigurationError: 422,
    ErasedError: 410,
    LimitError: 409,
    MissingExtraError: 500,
    MissingKeyError: 500,
    NotAllowedError: 403,
    ResourcesError: 503,
    RunStateError: 409,
    StorageError: 503,
    UnknownConversationError: 404,
    UnknownModelError: 500,
    UnknownProviderError: 500,
    UnknownRunError: 404,
    UnknownTurnError: 404,
    UnknownWaitError: 404,
}
"""The status of each error. Any other has the status of its nearest base, else 500."""
_CODES = {413: "too_large", 422: "invalid_request"}
"""The codes of statuses whose names differ between versions of Python."""


class InvalidRequestError(HTTPException):
    """A request does not match the description of its endpoint: status 422."""

    def __init__(self, problems: Sequence[Mapping[str, Any]]) -> None:
        first = problems[0]
        where = ".".join(map(str, first["loc"])) or "body"
        super().__init__(422, f"invalid {where}: {first['msg']}")
        self.details = [{"field": list(map(str, each["loc"])), "problem": str(each["msg"])} for each in problems]


class ErrorDetail(BaseModel):
    """A field of a request that is invalid."""

    field: list[str]
    problem: str


class ErrorBody(BaseModel):
    """An error: a code for programs and a message for people."""

    code: str
    message: str
    details: list[ErrorDetail] | None = None


class ErrorForm(BaseModel):
    """The body of every answer that reports an error."""

    error: ErrorBody


class FormedRoute(Route):
    """A route below whose path errors have a form of their own, such as that of a front-end protocol."""

    def __init__(self, path: str, endpoint: Handler, error_form: OwnForm, *, methods: Sequence[str]) -> None:
        super().__init__(path, endpoint, methods=methods)
        self.error_form = error_form


class ErrorForms:
    """The forms of errors by path. *routes* are the further routes of an application by the path below which they are.

    An error that precedes its route, such as a session that is missing, has the form of the routes at its path.
    """

    def __init__(self, routes: Mapping[str, Sequence[BaseRoute]]) -> None:
        found = {
            prefix: each.error_form
            for prefix, below in routes.items()
            for each in below
            if isinstance(each, FormedRoute)
        }
        self._forms = dict(sorted(found.items(), key=lambda item: -len(item[0])))
        """The longest path first."""

    def response(self, request: Request, error: Exception) -> Response:
        """Return the answer to a request that failed with *error*."""
        path = path_below_mount(request.scope)
        for prefix, form in self._forms.items():
            # Routes below the empty path leave `/api` to the API.
            if path == prefix or (path.startswith(f"{prefix}/") and (prefix or not path.startswith("/api/"))):
                return error_response(request, error, form)
        return error_response(request, error)


def path_below_mount(connection: Connection) -> str:
    """Return the path of a request without the path at which the application is mounted, which proxies may remove."""
    path, mount = str(connection["path"]), str(connection.get("root_path", "")).rstrip("/")
    return path[len(mount) :] if path == mount or path.startswith(f"{mount}/") else path


def error_response(request: Request, error: Exception, form: OwnForm | None = None) -> Response:
    """Return the answer to a request that failed with *error*. The text of a failure of the server is not sent.

    *form* makes an answer of its own form, which gets the headers of the error.
    """
    if isinstance(error, HTTPException):
        status, text, headers = error.status_code, error.detail, error.headers
    else:
        status, text, headers = *failure_of_request(request, error), None
    if form is not None and (answer := form(request, error, status, text)) is not None:
        answer.headers.update(headers or {})
        return answer
    details = error.details if isinstance(error, InvalidRequestError) else None
    return _form(status, error_code(error, status), text, details, headers)


def error_code(error: Exception, status: int) -> str:
    """Return the code of an error for programs."""
    if isinstance(error, HTTPException):
        return _CODES.get(status) or _phrase(status).lower().replace(" ", "_")
    if status >= 500:
        return "server_error"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # a status of a product or a proxy, such as 440
        return f"status {status}"


def failure_of_request(request: Request, error: Exception) -> tuple[int, str]:
    """Return the status of an error of the library, and its text for the user."""
    return failure_text(error, f"{request.method} {request.url.path}")


def failure_text(error: Exception, what: str) -> tuple[int, str]:
    """Return the status of the error of *what*, and its text for the user. A failure of the server is logged."""
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    if status < 500:
        return status, str(error)
    if isinstance(error, ConcertinoError):  # of any other, the server prints the traceback
        log.error("%s failed: %s: %s", what, type(error).__name__, error)
    return status, "the server failed: try again later, or ask its operator"


def _form(
    status: int,
    code: str,
    message: str,
    details: Sequence[Mapping[str, Any]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body: dict[str, Any] = {"code": code, "message": message}
    if details is not None:
        body["details"] = details
    return JSONResponse({"error": body}, status, headers)
