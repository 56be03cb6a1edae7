"""Errors of the Gemini API and the exceptions of Google's SDK, translated."""

from __future__ import annotations

from typing import Any

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    OverloadedError,
    ProviderError,
    ProviderTimeoutError,
)
from ..errors import (
    connection_error,
    http_errors,
    kind_by_class,
    kind_by_status,
    provider_error,
    retry_after,
    retry_info,
    rpc_details,
)
from .request import PROVIDER

KINDS_BY_CLASS: dict[str, type[ProviderError]] = {
    "APIError": ProviderError,  # refined by its code
    "ClientError": BadRequestError,  # refined by its code
    "ServerError": OverloadedError,  # refined by its code
    "UnknownApiResponseError": BrokenStreamError,
    "ContinuationInterruptedError": BrokenStreamError,
    "UnknownFunctionCallArgumentError": BadRequestError,
    "UnsupportedFunctionError": BadRequestError,
    "FunctionInvocationError": BadRequestError,
}
"""Every exception class that the SDK exports, by name."""


def sdk_errors() -> tuple[type[Exception], ...]:
    """Return the base classes of the exceptions that a request can raise.

    The SDK's error for a continuation that takes too long derives from `TimeoutError`.
    """
    from google.genai import errors  # noqa: PLC0415 - an optional dependency, loaded with the model

    exported = [getattr(errors, name) for name in KINDS_BY_CLASS if hasattr(errors, name)]
    return (*exported, *http_errors(), TimeoutError)


def translate(error: Exception, *, begun: bool) -> ProviderError:
    """Translate one of `sdk_errors`; *begun* is true once the response's headers have arrived."""
    if isinstance(error, http_errors()):
        return connection_error(error, PROVIDER, begun=begun)
    if isinstance(error, TimeoutError):
        return ProviderTimeoutError(f"google: {error}", provider=PROVIDER)
    code: int | None = getattr(error, "code", None)
    if code is None:
        return provider_error(kind_by_class(error, KINDS_BY_CLASS), f"google: {error}", provider=PROVIDER)
    body = getattr(error, "details", None)
    details = rpc_details(body.get("error", body) if isinstance(body, dict) else None)
    kind = kind_by_status(code)
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):  # comes with status 400
        kind = AuthenticationError
    headers = getattr(getattr(error, "response", None), "headers", None)
    return provider_error(
        kind,
        f"google: {getattr(error, 'message', None) or error}",
        provider=PROVIDER,
        status=code,
        retry_after=retry_info(details) or (retry_after(headers) if headers else None),
        part=_part(details),
    )


def stream_error(error: dict[str, Any]) -> ProviderError:
    """Translate an error that a stream contains instead of a chunk."""
    code = error.get("code") if isinstance(error.get("code"), int) else None
    kind = kind_by_status(code) if code is not None and code >= 400 else OverloadedError
    return provider_error(
        kind,
        f"google: {error.get('message') or error}",
        provider=PROVIDER,
        status=code if isinstance(code, int) else None,
    )


def _part(details: list[dict[str, Any]]) -> str:
    """Return the field that `google.rpc.BadRequest` names first."""
    for detail in details:
        for violation in detail.get("fieldViolations") or ():
            return str(violation.get("field") or "")
    return ""
