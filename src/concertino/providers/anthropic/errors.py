"""The SDK's exceptions in our words. Importing this module imports the SDK."""

from __future__ import annotations

import re

import anthropic

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
from ..errors import HTTP_FAILURES, by_status, http_failure, make, retry_after, timed_out
from .reply import ERROR_TYPES
from .request import PROVIDER

_PLACE = re.compile(r"([a-z_]+(?:\.[\w-]+)*): ")

FAILURES: tuple[type[Exception], ...] = (anthropic.AnthropicError, *HTTP_FAILURES)

TABLE: dict[type[Exception], type[ProviderError]] = {
    anthropic.AnthropicError: ProviderError,
    anthropic.APIError: ProviderError,
    anthropic.APIStatusError: ProviderError,  # by its status
    anthropic.APITimeoutError: ProviderTimeoutError,
    anthropic.APIConnectionError: ProviderConnectionError,
    anthropic.APIResponseValidationError: BrokenStreamError,
    anthropic.APIWebhookValidationError: ProviderError,
    anthropic.BadRequestError: BadRequestError,
    anthropic.AuthenticationError: AuthenticationError,
    anthropic.CredentialsError: AuthenticationError,
    anthropic.IdentityTokenFileError: AuthenticationError,
    anthropic.PaymentRequiredError: PermissionDeniedError,
    anthropic.PermissionDeniedError: PermissionDeniedError,
    anthropic.NotFoundError: ModelNotFoundError,
    anthropic.RequestTimeoutError: ProviderTimeoutError,
    anthropic.ConflictError: OverloadedError,
    anthropic.PreconditionFailedError: BadRequestError,
    anthropic.ContentTooLargeError: ContextTooLongError,
    anthropic.UnprocessableEntityError: BadRequestError,
    anthropic.RateLimitError: RateLimitError,
    anthropic.RequestHeaderFieldsTooLargeError: BadRequestError,
    anthropic.ClientClosedRequestError: ProviderConnectionError,
    anthropic.InternalServerError: OverloadedError,
    anthropic.HTTPNotImplementedError: OverloadedError,
    anthropic.ServiceUnavailableError: OverloadedError,
    anthropic.GatewayTimeoutError: ProviderTimeoutError,
    anthropic.OverloadedError: OverloadedError,
    anthropic.RetryableError: OverloadedError,
    # By cause. What is about money or rights does not get better by waiting, whatever its status.
    anthropic.WorkloadIdentityError: AuthenticationError,
    anthropic.ContractSpendLimitReachedError: PermissionDeniedError,
    anthropic.EnforcedSpendLimitReachedError: PermissionDeniedError,
    anthropic.LinkedOrganizationBillingUnavailableError: PermissionDeniedError,
    anthropic.LinkedOrganizationSpendLimitReachedError: PermissionDeniedError,
    anthropic.OrganizationOnHoldError: PermissionDeniedError,
    anthropic.OrganizationTypeNotSupportedError: PermissionDeniedError,
    anthropic.ParentOrganizationRequiredError: PermissionDeniedError,
    anthropic.ClaudeCodeKeyCreatorNotMemberError: PermissionDeniedError,
    anthropic.CMEKKeyDisabledError: AuthenticationError,
    anthropic.CMEKKeyNetworkBlockedError: AuthenticationError,
    anthropic.CMEKKeyUnreachableError: OverloadedError,
    anthropic.CMEKContextUnavailableError: OverloadedError,
    anthropic.RampLimitExceededError: RateLimitError,
    anthropic.SandboxEgressRestrictedError: PermissionDeniedError,
    anthropic.ClaudeCodeVersionTooOldError: BadRequestError,
    anthropic.RequestBodyEncodingInvalidError: BadRequestError,
    anthropic.RequestBodyEncodingUnsupportedError: BadRequestError,
    anthropic.RequestBodyTooLargeAfterDecodingError: ContextTooLongError,
}
"""Every exception class that the SDK exports."""


def translate(error: Exception, *, begun: bool) -> ProviderError:
    """One of `FAILURES` in our words; *begun* says whether the answer had begun."""
    if isinstance(error, HTTP_FAILURES):
        return http_failure(error, PROVIDER, begun=begun)
    if isinstance(error, anthropic.APITimeoutError):
        return timed_out(error, f"anthropic: {error}", PROVIDER)
    kind = next((TABLE[base] for base in type(error).__mro__ if base in TABLE), ProviderError)
    if not isinstance(error, anthropic.APIStatusError):
        return make(kind, f"anthropic: {error}", provider=PROVIDER)
    if kind is ProviderError:
        kind = by_status(error.status_code)
    # The API's own name says more than the status where the two differ, as with a 400 that is about billing.
    kind = ERROR_TYPES.get(error.type or "", kind) if kind is BadRequestError else kind
    return make(
        kind,
        f"anthropic: {error.api_message or error}",
        provider=PROVIDER,
        status=error.status_code,
        retry_after=retry_after(error.response.headers),
        part=_part(error.api_message or ""),
    )


def _part(message: str) -> str:
    """The place that a message begins with, such as `messages.1.content.0: ...`."""
    found = _PLACE.match(message)
    return found[1] if found else ""
