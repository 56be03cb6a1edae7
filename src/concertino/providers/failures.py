"""What the SDKs have in common when they fail: HTTP headers and the HTTP library's exceptions.

Imported by the adapters' `errors` modules only, as it needs the HTTP library that the SDKs bring along.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import httpx2

from ..errors import BrokenStreamError, ProviderConnectionError, ProviderError, ProviderTimeoutError

HTTP_FAILURES: tuple[type[Exception], ...] = (httpx2.HTTPError, httpx2.StreamError)
"""The roots of what reading an answer can raise."""


def http_failure(error: Exception, provider: str, *, begun: bool) -> ProviderError:
    """A failure of the connection; *begun* says whether the answer had begun."""
    words = str(error) or type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        return ProviderTimeoutError(f"{provider} was silent for too long: {words}", provider=provider)
    if begun:
        return BrokenStreamError(f"{provider} broke off its answer: {words}", provider=provider)
    return ProviderConnectionError(f"{provider} could not be reached: {words}", provider=provider)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The delay in seconds that the headers of an answer ask for.

    `retry-after-ms` is OpenAI's; `retry-after` is seconds or a date (RFC 9110, 10.2.3).
    """
    try:
        return float(headers["retry-after-ms"]) / 1000
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
