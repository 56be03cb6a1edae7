"""The SDK's exceptions in our words. Importing this module imports the SDK."""

from __future__ import annotations

import re
from typing import Any

import httpx2
from google.genai import errors

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    OverloadedError,
    ProviderError,
    ProviderTimeoutError,
)
from ..errors import HTTP_FAILURES, by_status, http_failure, make, retry_after, timed_out
from .request import PROVIDER

TABLE: dict[type[Exception], type[ProviderError]] = {
    errors.APIError: ProviderError,  # by its code
    errors.ClientError: BadRequestError,  # by its code
    errors.ServerError: OverloadedError,  # by its code
    errors.UnknownApiResponseError: BrokenStreamError,
    errors.ContinuationInterruptedError: BrokenStreamError,
    errors.UnknownFunctionCallArgumentError: BadRequestError,
    errors.UnsupportedFunctionError: BadRequestError,
    errors.FunctionInvocationError: BadRequestError,
}
"""Every exception class that the SDK exports."""

FAILURES: tuple[type[Exception], ...] = (*TABLE, *HTTP_FAILURES, TimeoutError)
"""The last is the base of the SDK's error of a continuation that takes too long."""

_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def translate(error: Exception, *, begun: bool) -> ProviderError:
    """One of `FAILURES` in our words; *begun* says whether the answer had begun."""
    if isinstance(error, httpx2.PoolTimeout):
        return timed_out(error, "google was not asked: all connections of this client are in use", PROVIDER)
    if isinstance(error, HTTP_FAILURES):
        return http_failure(error, PROVIDER, begun=begun)
    if isinstance(error, TimeoutError):
        return ProviderTimeoutError(f"google: {error}", provider=PROVIDER)
    kind = next((TABLE[base] for base in type(error).__mro__ if base in TABLE), ProviderError)
    if not isinstance(error, errors.APIError):
        return make(kind, f"google: {error}", provider=PROVIDER)
    details = _details(error.details)
    kind = by_status(error.code)
    # An unusable key comes with 400.
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        kind = AuthenticationError
    return make(
        kind,
        f"google: {error.message or error}",
        provider=PROVIDER,
        status=error.code,
        retry_after=_delay(error, details),
        part=_part(details),
    )


def _part(details: list[dict[str, Any]]) -> str:
    """The field that `google.rpc.BadRequest` names first."""
    for detail in details:
        for violation in detail.get("fieldViolations") or ():
            return str(violation.get("field") or "")
    return ""


def _details(body: Any) -> list[dict[str, Any]]:
    """The `google.rpc` details of an error's body."""
    inner = body.get("error", body) if isinstance(body, dict) else {}
    found = inner.get("details") if isinstance(inner, dict) else None
    return [detail for detail in found if isinstance(detail, dict)] if isinstance(found, list) else []


def _delay(error: errors.APIError, details: list[dict[str, Any]]) -> float | None:
    """What `google.rpc.RetryInfo` asks for ("23s"), or else the header."""
    for detail in details:
        if match := _DELAY.fullmatch(str(detail.get("retryDelay"))):
            return float(match[1])
    headers = getattr(error.response, "headers", None)
    return retry_after(headers) if headers else None
