"""Errors of OpenAI's formats, in the forms that many servers give them, and the exceptions of its SDK, translated."""

from __future__ import annotations

import re
from typing import Any

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContentFilteredError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
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
from ..http.encoding import dumps

KINDS_BY_CLASS: dict[str, type[ProviderError]] = {
    "OpenAIError": ProviderError,
    "APIError": ProviderError,
    "APIStatusError": ProviderError,  # refined by its status
    "APITimeoutError": ProviderTimeoutError,
    "APIConnectionError": ProviderConnectionError,
    "APIResponseValidationError": BrokenStreamError,
    "BadRequestError": BadRequestError,
    "AuthenticationError": AuthenticationError,
    "OAuthError": AuthenticationError,
    "PermissionDeniedError": PermissionDeniedError,
    "NotFoundError": ModelNotFoundError,
    "ConflictError": OverloadedError,
    "UnprocessableEntityError": BadRequestError,
    "RateLimitError": RateLimitError,
    "InternalServerError": OverloadedError,
    "LengthFinishReasonError": BrokenStreamError,
    "ContentFilterFinishReasonError": ContentFilteredError,
    "InvalidWebhookSignatureError": ProviderError,
    "WebSocketConnectionClosedError": ProviderConnectionError,
    "WebSocketQueueFullError": ProviderConnectionError,
}
"""Every exception class that the SDK exports, by name, so that versions with fewer classes work as well."""

KINDS_BY_CODE: dict[str, type[ProviderError]] = {
    "invalid_api_key": AuthenticationError,
    "API_KEY_INVALID": AuthenticationError,  # Google's reason, which comes with status 400
    "authentication_error": AuthenticationError,
    "permission_error": PermissionDeniedError,
    "insufficient_quota": PermissionDeniedError,  # comes with status 429, but waiting does not help
    "model_not_found": ModelNotFoundError,
    "DeploymentNotFound": ModelNotFoundError,
    "context_length_exceeded": ContextTooLongError,
    "exceed_context_size_error": ContextTooLongError,  # llama.cpp
    "content_filter": ContentFilteredError,
    "content_policy_violation": ContentFilteredError,
    "image_content_policy_violation": ContentFilteredError,
    "bio_policy": ContentFilteredError,
    "misalignment_policy_violation": ContentFilteredError,
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "server_error": OverloadedError,
    "server_is_overloaded": OverloadedError,
    "slow_down": OverloadedError,
    "vector_store_timeout": OverloadedError,
    "invalid_prompt": BadRequestError,
    "invalid_request_error": BadRequestError,
}


def sdk_errors() -> tuple[type[Exception], ...]:
    """Return the base classes of the exceptions that a request can raise."""
    import openai  # noqa: PLC0415 - an optional dependency, loaded with the model

    return (openai.OpenAIError, *http_errors())


def translate(error: Exception, provider: str, *, begun: bool) -> ProviderError:
    """Translate one of `sdk_errors`; *begun* is true once the response's headers have arrived."""
    status: int | None = getattr(error, "status_code", None)
    kind = kind_by_class(error, KINDS_BY_CLASS)
    if isinstance(error, http_errors()) or (status is None and kind in (ProviderTimeoutError, ProviderConnectionError)):
        return connection_error(error, provider, begun=begun)
    if status is None:
        return provider_error(kind, f"{provider}: {error}", provider=provider)
    if kind is ProviderError or (kind is OverloadedError and status != 409):
        kind = kind_by_status(status)
    body = error_object(getattr(error, "body", None))
    # The code is more precise than the status where they differ: the Responses API reports an unknown model with 400.
    # "Invalid request", however, also describes an unusable key and much else.
    coded = kind_by_code(body)
    if coded is not None and coded is not BadRequestError:
        kind = coded
    response: Any = getattr(error, "response", None)
    return provider_error(
        kind,
        f"{provider}: {body['message'] or error}",
        provider=provider,
        status=status,
        retry_after=retry_info(rpc_details(body)) or retry_after(response.headers),
        part=str(body.get("param") or ""),
    )


def kind_by_code(error: dict[str, Any]) -> type[ProviderError] | None:
    """Return the class for an error object's code, type or reason; None if all are unknown."""
    for name in (error.get("code"), error.get("type"), *(detail.get("reason") for detail in rpc_details(error))):
        found = KINDS_BY_CODE.get(str(name))
        if found is not None:
            return found
    return None


def status_in_code(error: dict[str, Any]) -> int | None:
    """Return the HTTP status that some servers send as the code of an error inside a stream."""
    code = str(error.get("code"))
    return int(code) if code.isdecimal() and 400 <= int(code) < 600 else None


_MAX_MESSAGE = 1000
_PAGE = re.compile(r"\s*<(?:!doctype|html)\b", re.IGNORECASE)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def error_object(body: Any) -> dict[str, Any]:
    """Return the error object in *body*, whatever its form, with a `message` that is a text, possibly ""."""
    while isinstance(body, list) and body:
        body = body[0]
    inner = body["error"] if isinstance(body, dict) and body.get("error") else body
    fields = next((found for found in (inner, body) if isinstance(found, dict)), {})
    try:
        message = _message(inner)
    except RecursionError:
        message = ""
    return {**fields, "message": message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"}


def _message(value: Any) -> str:
    if isinstance(value, str):
        return " ".join(_MARKUP.sub(" ", value).split()) if _PAGE.match(value) else value.strip()
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message, value)))
    if not isinstance(value, dict):
        return str(value) if value else ""
    if value.get("msg") and isinstance(value.get("loc"), list):
        return f"{'.'.join(map(str, value['loc']))}: {value['msg']}"
    for name in ("message", "error", "detail", "errors"):
        if value.get(name):
            return _message(value[name])
    return dumps(value) if value else ""
