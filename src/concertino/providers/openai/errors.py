"""The SDK's exceptions in our words. Importing this module imports the SDK."""

from __future__ import annotations

import openai

from ...errors import (
    AuthenticationError,
    BadRequestError,
    BrokenStreamError,
    ContentFilteredError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from ..failures import HTTP_FAILURES, http_failure, retry_after, retry_info, timed_out
from ..kinds import by_status, make
from .codes import details_of, kind_of
from .error_bodies import error_of

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
