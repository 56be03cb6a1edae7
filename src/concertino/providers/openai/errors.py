"""The SDK's exceptions in our words. Importing this module imports the SDK."""

from __future__ import annotations

import re
from typing import Any

import openai

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
from ..errors import HTTP_FAILURES, by_status, http_failure, make, retry_after, retry_info, timed_out
from ..http.encoding import dumps

FAILURES: tuple[type[Exception], ...] = (openai.OpenAIError, *HTTP_FAILURES)

TABLE: dict[type[Exception], type[ProviderError]] = {
    openai.OpenAIError: ProviderError,
    openai.APIError: ProviderError,
    openai.APIStatusError: ProviderError,  # by its status
    openai.APITimeoutError: ProviderTimeoutError,
    openai.APIConnectionError: ProviderConnectionError,
    openai.APIResponseValidationError: BrokenStreamError,
    openai.BadRequestError: BadRequestError,
    openai.AuthenticationError: AuthenticationError,
    openai.OAuthError: AuthenticationError,
    openai.PermissionDeniedError: PermissionDeniedError,
    openai.NotFoundError: ModelNotFoundError,
    openai.ConflictError: OverloadedError,
    openai.UnprocessableEntityError: BadRequestError,
    openai.RateLimitError: RateLimitError,
    openai.InternalServerError: OverloadedError,
    openai.LengthFinishReasonError: BrokenStreamError,
    openai.ContentFilterFinishReasonError: ContentFilteredError,
    openai.InvalidWebhookSignatureError: ProviderError,
    openai.WebSocketConnectionClosedError: ProviderConnectionError,
    openai.WebSocketQueueFullError: ProviderConnectionError,
}
"""Every exception class that the SDK exports."""


def translate(error: Exception, provider: str, *, begun: bool) -> ProviderError:
    """One of `FAILURES` in our words; *begun* says whether the answer had begun."""
    if isinstance(error, HTTP_FAILURES):
        return http_failure(error, provider, begun=begun)
    if isinstance(error, openai.APITimeoutError):
        return timed_out(error, f"{provider}: {error}", provider)
    kind = next((TABLE[base] for base in type(error).__mro__ if base in TABLE), ProviderError)
    if not isinstance(error, openai.APIStatusError):
        return make(kind, f"{provider}: {error}", provider=provider)
    if kind is ProviderError or (kind is OverloadedError and error.status_code != 409):
        kind = by_status(error.status_code)
    body = error_of(error.body)
    # The code says more than the status where the two differ: an unknown model comes with 400 from Responses. But
    # "invalid request" is what an unusable key and much else is called as well.
    named = kind_of(body)
    if named is not None and named is not BadRequestError:
        kind = named
    return make(
        kind,
        f"{provider}: {body['message'] or error}",
        provider=provider,
        status=error.status_code,
        retry_after=retry_info(details_of(body)) or retry_after(error.response.headers),
        part=str(body.get("param") or ""),
    )


CODES: dict[str, type[ProviderError]] = {
    "invalid_api_key": AuthenticationError,
    "API_KEY_INVALID": AuthenticationError,  # Google's reason, which comes with 400
    "authentication_error": AuthenticationError,
    "permission_error": PermissionDeniedError,
    "insufficient_quota": PermissionDeniedError,  # comes with 429, but waiting does not help
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


def kind_of(error: dict[str, Any]) -> type[ProviderError] | None:
    """The error that an error object's code, or else its type or a reason among its details, names; None for words that
    say nothing here."""
    for name in (error.get("code"), error.get("type"), *(detail.get("reason") for detail in details_of(error))):
        found = CODES.get(str(name))
        if found is not None:
            return found
    return None


def details_of(error: dict[str, Any]) -> list[dict[str, Any]]:
    """The `google.rpc` details of an error object."""
    found = error.get("details")
    return [detail for detail in found if isinstance(detail, dict)] if isinstance(found, list) else []


def status_of(error: dict[str, Any]) -> int | None:
    """The HTTP status that some servers put in the place of the code, in the middle of a stream."""
    code = str(error.get("code"))
    return int(code) if code.isdecimal() and 400 <= int(code) < 600 else None


_MOST = 1000
_PAGE = re.compile(r"\s*<(?:!doctype|html)\b", re.IGNORECASE)
_NO_WORDS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def error_of(body: Any) -> dict[str, Any]:
    """The error object in *body*, whatever its form; its `message` is a text, "" where nothing is said."""
    while isinstance(body, list) and body:
        body = body[0]
    inner = body["error"] if isinstance(body, dict) and body.get("error") else body
    fields = next((found for found in (inner, body) if isinstance(found, dict)), {})
    try:
        words = _words(inner)
    except RecursionError:
        words = ""
    return {**fields, "message": words if len(words) <= _MOST else f"{words[:_MOST]}…"}


def _words(said: Any) -> str:
    if isinstance(said, str):
        return " ".join(_NO_WORDS.sub(" ", said).split()) if _PAGE.match(said) else said.strip()
    if isinstance(said, list):
        return "; ".join(filter(None, map(_words, said)))
    if not isinstance(said, dict):
        return str(said) if said else ""
    if said.get("msg") and isinstance(said.get("loc"), list):
        return f"{'.'.join(map(str, said['loc']))}: {said['msg']}"
    for name in ("message", "error", "detail", "errors"):
        if said.get(name):
            return _words(said[name])
    return dumps(said) if said else ""
