"""Fetch one page as plain text, guarded against private addresses and limited in size and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import LibraryError
from ...number_checks import check_amount, check_whole
from ...records import record
from ..library import Page, Source, source_id
from .addresses import Resolver, resolve
from .client import USER_AGENT, http
from .content import ResponseBody, page_text

if TYPE_CHECKING:
    import httpx2

_REDIRECTS = {301, 302, 303, 307, 308}


@record(kw_only=True)
class FetchLimits:
    """Limits on fetching one page."""

    seconds: float = 20.0
    """Time limit for the whole fetch: name resolution, connections, redirects and text extraction."""
    connect_seconds: float = 5.0
    bytes: int = 5_000_000
    """Largest body after decompression."""
    redirects: int = 5

    def __post_init__(self) -> None:
        check_amount("FetchLimits", "seconds", self.seconds, "seconds above 0")
        check_amount("FetchLimits", "connect_seconds", self.connect_seconds, "seconds above 0")
        check_whole("FetchLimits", "bytes", self.bytes)
        check_whole("FetchLimits", "redirects", self.redirects, 0)


DEFAULT_LIMITS = FetchLimits()


async def fetch_page(
    url: str,
    *,
    allow_private: bool = False,
    limits: FetchLimits = DEFAULT_LIMITS,
    resolver: Resolver = resolve,
) -> Page:
    """Return the page at *url* as plain text.

    Only `http` and `https` URLs are fetched, and only from public hosts unless *allow_private* is true. Every redirect
    is checked like the first URL. Proxies of the environment are ignored, and no cookies are kept.

    Raises `LibraryError`, naming the URL and the reason, and `MissingExtraError` without the extra `web`.
    """
    httpx2 = http()
    try:
        async with asyncio.timeout(limits.seconds):
            final, body = await _fetch(url, allow_private=allow_private, limits=limits, resolver=resolver)
            title, text = await page_text(final, body)
    except TimeoutError as error:
        raise LibraryError(f"web: {url} took longer than {limits.seconds:g} s; try another source") from error
    except httpx2.TimeoutException as error:
        raise LibraryError(f"web: {url} did not answer in time ({type(error).__name__}); try another source") from error
    except httpx2.InvalidURL as error:
        raise LibraryError(f"web: {url!r} is not a valid URL ({error})") from error
    except httpx2.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise LibraryError(f"web: {url} cannot be fetched ({reason}); try another source") from error
    return Page(source=Source(id=source_id(url), title=title or final, location=url), text=text)


async def _fetch(url: str, *, allow_private: bool, limits: FetchLimits, resolver: Resolver) -> tuple[str, ResponseBody]:
    """Follow redirects from *url*; return the final URL and its body."""
    from .pinned_transport import PinnedTransport  # noqa: PLC0415 - imports the optional dependency

    httpx2 = http()
    headers = {
        "User-Agent": USER_AGENT,
        "Accept": "text/html, text/plain, text/markdown, application/json;q=0.9, */*;q=0.1",
        # Encodings that httpx2 decompresses in bounded pieces, whichever optional codecs are installed.
        "Accept-Encoding": "gzip, deflate",
    }
    async with PinnedTransport(resolver, allow_private=allow_private) as transport:
        timeout = httpx2.Timeout(limits.seconds, connect=limits.connect_seconds)
        for _ in range(limits.redirects + 1):
            _require_web_address(url)
            # Requests go to the transport without a client, so that no cookie of one hop reaches the next.
            request = httpx2.Request("GET", url, headers=headers, extensions={"timeout": timeout.as_dict()})
            response = await transport.handle_async_request(request)
            response.request = request
            try:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    url = str(request.url.join(response.headers["location"]))
                    continue
                return url, await _body(url, response, limits)
            finally:
                await response.aclose()
    raise LibraryError(f"web: {url} redirects more than {limits.redirects} times; try another source")


def _require_web_address(url: str) -> None:
    """Raise `LibraryError` unless *url* is an `http` or `https` URL with a host."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise LibraryError(f"web: {url!r} is not a valid URL ({error})") from error
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise LibraryError(f"web: cannot fetch {url!r}: use an http or https URL")


async def _body(url: str, response: httpx2.Response, limits: FetchLimits) -> ResponseBody:
    if response.status_code != 200:
        raise LibraryError(f"web: {url} returned status {response.status_code}{_hint(response.status_code)}")
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > limits.bytes:
            raise LibraryError(f"web: {url} is larger than {limits.bytes / 1_000_000:g} MB; try another source")
    return ResponseBody(data=bytes(data), content_type=response.headers.get("content-type", ""))


def _hint(status: int) -> str:
    if status in (404, 410):
        return ": the page does not exist"
    if status in (401, 402, 403, 451):
        return ": the site denies access; try another source"
    if status == 429:
        return ": too many requests; wait before fetching from this site again"
    return ": the site failed; try again later or use another source" if status >= 500 else ""
