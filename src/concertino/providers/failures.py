"""What the SDKs have in common when they fail: HTTP headers and the HTTP library's exceptions.

Imported by the adapters' `errors` modules only, as it needs the HTTP library that the SDKs bring along.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from ..errors import BrokenStreamError, ProviderConnectionError, ProviderError, ProviderTimeoutError

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
