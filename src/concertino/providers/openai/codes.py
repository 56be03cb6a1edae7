"""What the codes mean with which OpenAI and the servers that speak its formats name an error, and where they stand.

From OpenAI's guide "Error codes", the SDK's `ResponseError.code`, and Azure's and OpenRouter's API references.
"""

from __future__ import annotations

from typing import Any

from ...errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilteredError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
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
