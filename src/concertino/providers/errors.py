"""Translate HTTP statuses, error messages and connection failures into this library's errors.

Exceptions of an SDK or of the HTTP library are recognised by class name, so importing this module loads neither.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

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

_CONTEXT_TOO_LONG = (
    # Anthropic: "prompt is too long: 213462 tokens > 200000 maximum"; "input length and `max_tokens` exceed
    # context limit"; the same model at Bedrock: "Input is too long for requested model."
    r"prompt is too long|exceed context limit|input is too long for requested model"
    # OpenAI and compatible servers: "maximum context length is 128000 tokens", "context window"
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
_BY_MESSAGE: tuple[tuple[re.Pattern[str], type[ProviderError]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), kind)
    for pattern, kind in (
        (_CONTEXT_TOO_LONG, ContextTooLongError),
        # xAI: "Incorrect API key provided"; Gemini: "API key not valid", "API key expired"
        (r"incorrect api key|invalid api key|api key (?:not valid|expired)", AuthenticationError),
        # Anthropic: "Your credit balance is too low to access the Anthropic API."
        (r"credit balance is too low", PermissionDeniedError),
    )
)
"""Refusals that share status 400 with others and differ only in their message, as of November 2026."""

_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationError,
    402: PermissionDeniedError,
    403: PermissionDeniedError,
    404: ModelNotFoundError,
    408: ProviderTimeoutError,
    409: OverloadedError,  # a lock timeout, which OpenAI's SDK retries
    413: ContextTooLongError,
    429: RateLimitError,
    499: ProviderConnectionError,
    504: ProviderTimeoutError,
}


def kind_by_status(status: int) -> type[ProviderError]:
    """Return the error class for an HTTP status that is not a success."""
    found = _BY_STATUS.get(status)
    return found or (OverloadedError if status >= 500 else BadRequestError)


def kind_by_class(error: Exception, table: Mapping[str, type[ProviderError]]) -> type[ProviderError]:
    """Return the entry of *table* for the most specific class of *error* that it names."""
    return next((table[base.__name__] for base in type(error).__mro__ if base.__name__ in table), ProviderError)


def provider_error(
    kind: type[ProviderError],
    message: str,
    *,
    provider: str,
    status: int | None = None,
    retry_after: float | None = None,
    part: str = "",
) -> ProviderError:
    """Build an error that the provider reported, refining a bad request by its message.

    *part* is the provider's name for the offending part of the request.
    """
    if kind is BadRequestError:
        kind = next((finer for pattern, finer in _BY_MESSAGE if pattern.search(message)), kind)
    error = kind(message, provider=provider, status=status, retry_after=retry_after)
    error.sent = None if status is None else True
    if isinstance(error, BadRequestError):
        error.part = part
    return error


_SIGNING = (
    ("google.auth.exceptions", "GoogleAuthError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("azure.core.exceptions", "AzureError"),
)


def signing_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the loaded libraries that sign requests to Vertex, Bedrock and Azure.

    A client imports its signing library at the first request, so a missing one shows up here as well.
    """
    loaded = (getattr(sys.modules[module], name) for module, name in _SIGNING if module in sys.modules)
    return (ModuleNotFoundError, *loaded)


def signing_error(error: Exception, provider: str) -> ProviderError:
    """Translate one of `signing_errors`: no credentials, no signing library, or an unreachable credential service."""
    unreached = any(word in type(error).__name__ for word in ("Transport", "Connection", "Timeout", "ServiceRequest"))
    kind = ProviderConnectionError if unreached else AuthenticationError
    failure = kind(f"{provider}: the request could not be signed: {error}", provider=provider)
    failure.sent = False
    return failure


def http_errors() -> tuple[type[Exception], ...]:
    """Return the base classes of the exceptions that the HTTP library raises."""
    import httpx2  # noqa: PLC0415 - the SDKs bring it, and loading it is slow

    return (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, httpx2.CookieConflict)


_NOT_CONNECTED = frozenset({
    "ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL",
    "LocalProtocolError",
    # aiohttp's
    "ClientConnectorError", "ConnectionTimeoutError",
})  # fmt: skip
"""Exceptions that precede the request: no connection, or a request that HTTP cannot express."""
_TIMEOUTS = frozenset({"TimeoutException", "APITimeoutError", "TimeoutError"})


def connection_error(error: Exception, provider: str, *, begun: bool) -> ProviderError:
    """Translate a failure of the connection, raised by the HTTP library or wrapped by an SDK.

    *begun* is true once the response's headers have arrived. The result's `sent` is False only for failures that
    precede the request: a lost connection may have lost the answer to a request that the provider processed.
    """
    chain = list(_causes(error))
    # The SDKs' aiohttp transport reports a lost connection as ConnectTimeout, even if the server closed it after it had
    # read the request. Only aiohttp's own exception, the cause, is reliable.
    chain = [cause for cause in chain if type(cause).__module__.partition(".")[0] == "aiohttp"] or chain
    text = str(chain[0]) or type(chain[0]).__name__
    sent = False if not begun and _has_class(chain, _NOT_CONNECTED) else None
    if _has_class(chain, _TIMEOUTS):
        problem = "was silent for too long"
        if _has_class(chain, frozenset({"PoolTimeout"})):
            problem, text = "was not asked", "all connections of this client are in use"
        timeout = ProviderTimeoutError(f"{provider} {problem}: {text}", provider=provider)
        timeout.limit = "connect" if sent is False else "delta"
        timeout.sent = sent
        return timeout
    if begun:
        return BrokenStreamError(f"{provider} broke off its answer: {text}", provider=provider)
    text = str(chain[-1]) or type(chain[-1]).__name__  # the SDK's own text names no cause
    failure = ProviderConnectionError(f"{provider} could not be reached{_address(error)}: {text}", provider=provider)
    failure.sent = sent
    return failure


def _address(error: Exception) -> str:
    """Return the address that the SDK's request went to, without its path and its query."""
    url = urlsplit(str(getattr(vars(error).get("request"), "url", "")))
    return f" at {url.scheme}://{url.netloc.rpartition('@')[2]}" if url.netloc else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _has_class(chain: list[BaseException], names: frozenset[str]) -> bool:
    return any(base.__name__ in names for error in chain for base in type(error).__mro__)


_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay in seconds that response headers ask for, or None.

    `retry-after-ms` is OpenAI's; `retry-after` is seconds or a date (RFC 9110, 10.2.3). Invalid values are ignored.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        delay = _finite(headers.get(name, ""))
        if delay is not None:
            return max(0.0, delay / unit)
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except ValueError:
        return None


def retry_info(details: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the delay in seconds that `google.rpc.RetryInfo` ("23s") among *details* asks for, or None."""
    for detail in details:
        if match := _DELAY.fullmatch(str(detail.get("retryDelay"))):
            return _finite(match[1])
    return None


def rpc_details(error: Any) -> list[dict[str, Any]]:
    """Return the `google.rpc` details of an error object, which Google's servers send in every format."""
    found = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in found if isinstance(detail, dict)] if isinstance(found, list) else []


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
