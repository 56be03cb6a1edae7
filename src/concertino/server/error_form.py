"""The one form of errors, and the status of each error of the library."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

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


def error_response(request: Request, error: Exception) -> Response:
    """Return the answer to a request that failed with *error*. The text of a failure of the server is not sent."""
    if isinstance(error, HTTPException):
        code = _CODES.get(error.status_code) or HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        details = error.details if isinstance(error, InvalidRequestError) else None
        return _form(error.status_code, code, error.detail, details, error.headers)
    status, text = failure_of_request(request, error)
    if status >= 500:
        return _form(status, "server_error", text)
    code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
    return _form(status, code, text)


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
