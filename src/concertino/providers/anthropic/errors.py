"""Errors of the Messages API and the exceptions of Anthropic's SDK, translated."""

from __future__ import annotations

import re
from typing import Any

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContextTooLongError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from ..errors import connection_error, http_errors, kind_by_class, kind_by_status, provider_error, retry_after
from .request import PROVIDER

KINDS_BY_TYPE: dict[str, type[ProviderError]] = {
    "invalid_request_error": BadRequestError,
    "authentication_error": AuthenticationError,
    "billing_error": PermissionDeniedError,
    "permission_error": PermissionDeniedError,
    "not_found_error": ModelNotFoundError,
    "request_too_large": ContextTooLongError,
    "rate_limit_error": RateLimitError,
    "timeout_error": ProviderTimeoutError,
    "api_error": OverloadedError,
    "overloaded_error": OverloadedError,
    # Bedrock's, which arrive as frames of their own
    "validationException": BadRequestError,
    "throttlingException": RateLimitError,
    "modelTimeoutException": ProviderTimeoutError,
    "accessDeniedException": PermissionDeniedError,
    "resourceNotFoundException": ModelNotFoundError,
}
"""The API's error types, in the body of an error response and in an `error` event of a stream."""

KINDS_BY_CLASS: dict[str, type[ProviderError]] = {
    "AnthropicError": ProviderError,
    "APIError": ProviderError,
    "APIStatusError": ProviderError,  # refined by its status
    "APITimeoutError": ProviderTimeoutError,
    "APIConnectionError": ProviderConnectionError,
    "APIResponseValidationError": BrokenStreamError,
    "APIWebhookValidationError": ProviderError,
    "BadRequestError": BadRequestError,
    "AuthenticationError": AuthenticationError,
    "CredentialsError": AuthenticationError,
    "IdentityTokenFileError": AuthenticationError,
    "PaymentRequiredError": PermissionDeniedError,
    "PermissionDeniedError": PermissionDeniedError,
    "NotFoundError": ModelNotFoundError,
    "RequestTimeoutError": ProviderTimeoutError,
    "ConflictError": OverloadedError,
    "PreconditionFailedError": BadRequestError,
    "ContentTooLargeError": ContextTooLongError,
    "UnprocessableEntityError": BadRequestError,
    "RateLimitError": RateLimitError,
    "RequestHeaderFieldsTooLargeError": BadRequestError,
    "ClientClosedRequestError": ProviderConnectionError,
    "InternalServerError": OverloadedError,
    "HTTPNotImplementedError": OverloadedError,
    "ServiceUnavailableError": OverloadedError,
    "GatewayTimeoutError": ProviderTimeoutError,
    "OverloadedError": OverloadedError,
    "RetryableError": OverloadedError,
    # Named by cause. Waiting does not help with money or permissions, whatever the status.
    "WorkloadIdentityError": AuthenticationError,
    "ContractSpendLimitReachedError": PermissionDeniedError,
    "EnforcedSpendLimitReachedError": PermissionDeniedError,
    "LinkedOrganizationBillingUnavailableError": PermissionDeniedError,
    "LinkedOrganizationSpendLimitReachedError": PermissionDeniedError,
    "OrganizationOnHoldError": PermissionDeniedError,
    "OrganizationTypeNotSupportedError": PermissionDeniedError,
    "ParentOrganizationRequiredError": PermissionDeniedError,
    "ClaudeCodeKeyCreatorNotMemberError": PermissionDeniedError,
    "CMEKKeyDisabledError": AuthenticationError,
    "CMEKKeyNetworkBlockedError": AuthenticationError,
    "CMEKKeyUnreachableError": OverloadedError,
    "CMEKContextUnavailableError": OverloadedError,
    "RampLimitExceededError": RateLimitError,
    "SandboxEgressRestrictedError": PermissionDeniedError,
    "ClaudeCodeVersionTooOldError": BadRequestError,
    "RequestBodyEncodingInvalidError": BadRequestError,
    "RequestBodyEncodingUnsupportedError": BadRequestError,
    "RequestBodyTooLargeAfterDecodingError": ContextTooLongError,
}
"""Every exception class that the SDK exports, by name, so that versions with fewer classes work as well."""


def sdk_errors() -> tuple[type[Exception], ...]:
    """Return the base classes of the exceptions that a request can raise."""
    import anthropic  # noqa: PLC0415 - an optional dependency, loaded with the model

    return (anthropic.AnthropicError, *http_errors())


def translate(error: Exception, *, begun: bool) -> ProviderError:
    """Translate one of `sdk_errors`; *begun* is true once the response's headers have arrived."""
    status: int | None = getattr(error, "status_code", None)
    kind = kind_by_class(error, KINDS_BY_CLASS)
    if isinstance(error, http_errors()) or (status is None and kind in (ProviderTimeoutError, ProviderConnectionError)):
        return connection_error(error, PROVIDER, begun=begun)
    message = getattr(error, "api_message", None) or str(error)
    if status is None:
        return provider_error(kind, f"anthropic: {message}", provider=PROVIDER)
    if kind is ProviderError:
        kind = kind_by_status(status)
    # The API's own type is more precise than the status where they differ, as for a 400 about billing.
    if kind is BadRequestError:
        kind = KINDS_BY_TYPE.get(getattr(error, "type", None) or "", kind)
    response: Any = getattr(error, "response", None)
    return provider_error(
        kind,
        f"anthropic: {message}",
        provider=PROVIDER,
        status=status,
        retry_after=retry_after(response.headers),
        part=_part(message),
    )


def stream_error(data: dict[str, Any]) -> ProviderError:
    """Translate an `error` event. It has no HTTP status, because the response began with 200."""
    error = data.get("error") or {}
    kind = KINDS_BY_TYPE.get(error.get("type", ""), OverloadedError)
    return provider_error(kind, f"anthropic: {error.get('message') or error or data}", provider=PROVIDER)


_PATH = re.compile(r"([a-z_]+(?:\.[\w-]+)*): ")


def _part(message: str) -> str:
    """Return the path that a message begins with, such as `messages.1.content.0: ...`."""
    found = _PATH.match(message)
    return found[1] if found else ""
