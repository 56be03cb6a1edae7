"""Which error a provider's answer stands for: by its HTTP status, and by words where no status exists."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from ..errors import (
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

_TOO_LONG = (
    # Anthropic: "prompt is too long: 213462 tokens > 200000 maximum"; "input length and `max_tokens` exceed
    # context limit"; the same model at Bedrock: "Input is too long for requested model."
    r"prompt is too long|exceed context limit|input is too long for requested model"
    # OpenAI and the servers that speak its formats: "maximum context length is 128000 tokens", "context window"
    r"|maximum context length|exceeds the context window|context_length_exceeded"
    # Gemini: "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576)."; at Vertex:
    # "the input token count is 2157013 but model only supports up to 1048576"
    r"|input token count.*(?:exceeds the maximum|but model only supports)"
    # vLLM: "the model's context length is only 8192 tokens"; "longer than the maximum model length of 4096"
    r"|model's context length is only|maximum model length"
    # SGLang; llama.cpp; LM Studio
    r"|longer than the model's context length|exceeds the available context size|greater than the context length"
    # xAI; Moonshot; Together: "`inputs` tokens + `max_new_tokens` must be <= 8193"; Cohere, but not a limit per minute
    r"|maximum prompt length is|exceeded model token limit|max_new_tokens`? must be <=|too many tokens(?! per|, please)"
)
_REFUSED: tuple[tuple[re.Pattern[str], type[ProviderError]], ...] = tuple(
    (re.compile(words, re.IGNORECASE | re.DOTALL), kind)
    for words, kind in (
        (_TOO_LONG, ContextTooLongError),
        # xAI: "Incorrect API key provided"; Gemini: "API key not valid", "API key expired"
        (r"incorrect api key|invalid api key|api key (?:not valid|expired)", AuthenticationError),
        # Anthropic: "Your credit balance is too low to access the Anthropic API."
        (r"credit balance is too low", PermissionDeniedError),
    )
)
"""What refusals say that have no status of their own, or come with another one; in the words of November 2026."""

_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationError,
    402: PermissionDeniedError,
    403: PermissionDeniedError,
    404: ModelNotFoundError,
    408: ProviderTimeoutError,
    409: OverloadedError,  # a lock that somebody else holds, says OpenAI's SDK, which sends such requests again
    413: ContextTooLongError,
    429: RateLimitError,
    499: ProviderConnectionError,
    504: ProviderTimeoutError,
}


def by_status(status: int) -> type[ProviderError]:
    """The error for an HTTP status of 400 and above."""
    found = _BY_STATUS.get(status)
    return found or (OverloadedError if status >= 500 else BadRequestError)


def make(
    kind: type[ProviderError],
    message: str,
    *,
    provider: str,
    status: int | None = None,
    retry_after: float | None = None,
    part: str = "",
) -> ProviderError:
    """An error of *kind*, made finer where the message says more: a bad request may be one that is too long. *part* is
    what offends, in the provider's words."""
    if kind is BadRequestError:
        kind = next((finer for words, finer in _REFUSED if words.search(message)), kind)
    failure = kind(message, provider=provider, status=status, retry_after=retry_after)
    if isinstance(failure, BadRequestError):
        failure.part = part
    return failure


_SIGNING = (
    ("google.auth.exceptions", "GoogleAuthError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("azure.core.exceptions", "AzureError"),
)


def signing_failures() -> tuple[type[Exception], ...]:
    """What the libraries raise with which the clients of Vertex, Bedrock and Azure sign requests, as far as they are
    loaded: one that is not cannot have raised anything. They are imported when the first request is signed, so that
    one may be missing then."""
    loaded = (getattr(sys.modules[module], name) for module, name in _SIGNING if module in sys.modules)
    return (ModuleNotFoundError, *loaded)


def signing_failure(error: Exception, provider: str) -> ProviderError:
    """One of these in our words: there is no key, nothing to sign with, or the service that gives keys cannot be
    reached."""
    unreached = any(word in type(error).__name__ for word in ("Transport", "Connection", "Timeout", "ServiceRequest"))
    kind = ProviderConnectionError if unreached else AuthenticationError
    return kind(f"{provider}: the request could not be signed: {error}", provider=provider)


HTTP_FAILURES: tuple[type[Exception], ...] = (
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    httpx2.CookieConflict,
)
"""The roots of what sending a request and reading its answer can raise."""

_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def http_failure(error: Exception, provider: str, *, begun: bool) -> ProviderError:
    """A failure of the connection; *begun* says whether the answer had begun."""
    words = str(error) or type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        return timed_out(error, f"{provider} was silent for too long: {words}", provider)
    if begun:
        return BrokenStreamError(f"{provider} broke off its answer: {words}", provider=provider)
    return ProviderConnectionError(f"{provider} could not be reached: {words}", provider=provider)


def timed_out(error: BaseException, words: str, provider: str) -> ProviderTimeoutError:
    """A time-out of the HTTP library, or one that it is the cause of."""
    failure = ProviderTimeoutError(words, provider=provider)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx2.TimeoutException):
        cause = cause.__cause__
    if cause is not None:
        failure.limit = "connect" if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout) else "delta"
    return failure


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The delay in seconds that the headers of an answer ask for.

    `retry-after-ms` is OpenAI's; `retry-after` is seconds or a date (RFC 9110, 10.2.3). What makes no sense asks for
    nothing.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        delay = _number(headers.get(name, ""))
        if delay is not None:
            return max(0.0, delay / unit)
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except ValueError:
        return None


def retry_info(details: Iterable[Mapping[str, Any]]) -> float | None:
    """The delay in seconds that `google.rpc.RetryInfo` among *details* asks for ("23s")."""
    for detail in details:
        if match := _DELAY.fullmatch(str(detail.get("retryDelay"))):
            return float(match[1])
    return None


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
