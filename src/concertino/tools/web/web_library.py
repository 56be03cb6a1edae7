"""The web as a `Library`: a search service finds pages, and `fetch_page` opens them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ...errors import LibraryError
from ..library import Hit, Page, Source, source_id
from .addresses import ALLOW_VARIABLE
from .backends import Brave, SearchBackend, SearXNG, Tavily
from .client import http, search_client
from .fetch import fetch_page

if TYPE_CHECKING:
    import httpx2

_MAX_REMEMBERED = 10_000


class WebLibrary:
    """A `Library` over a search service. Searches use *client* if it is given; `close` leaves it open.

    Raises `MissingExtraError` if the extra `web` is not installed.
    """

    kind: Literal["web"] = "web"

    def __init__(
        self, backend: SearchBackend, *, allow_private: bool = False, client: httpx2.AsyncClient | None = None
    ) -> None:
        self.name = f"the web ({backend.name})"
        self._backend = backend
        self._allow_private = allow_private
        self._owns_client = client is None
        self._client = client or search_client()
        self._found: dict[str, Source] = {}

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """Return the results of the search service in its order; none for an empty query.

        Raises `LibraryError`, naming the service, the status and the remedy.
        """
        httpx2 = http()
        query = query.encode("utf-8", "ignore").decode().replace("\x00", " ").strip()
        if not query or limit < 1:
            return []
        if self._client.is_closed:
            raise LibraryError(f"{self.name}: the library is closed; create a new one")
        try:
            results = await self._backend.search(self._client, query, limit)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise LibraryError(
                f"web search ({self._backend.name}): no connection ({reason}); check the network and try again"
            ) from error
        hits = [
            Hit(
                source=Source(id=source_id(result.url), title=result.title, location=result.url),
                snippet=result.snippet,
                score=1 / rank,
            )
            for rank, result in enumerate(results[:limit], 1)
        ]
        self._remember(hits)
        return hits

    def _remember(self, hits: Sequence[Hit]) -> None:
        for hit in hits:
            self._found.pop(hit.source.id, None)
            self._found[hit.source.id] = hit.source
        while len(self._found) > _MAX_REMEMBERED:
            self._found.pop(next(iter(self._found)))

    async def open(self, location: str) -> Page:
        """Return the page at a URL, or at the source id of an earlier hit; see `fetch_page`."""
        location = location.strip()
        known = self._found.get(location) or self._found.get(source_id(location))
        url = known.location if known else location
        if known is None and "://" not in url:
            raise LibraryError(
                f"{self.name}: {url!r} is neither a URL nor the source id of an earlier hit; search first"
            )
        page = await fetch_page(url, allow_private=self._allow_private)
        # A page without a title of its own gets the title from the search service.
        titled = known if known and page.source.title == page.source.location else page.source
        return replace(page, source=titled)

    async def close(self) -> None:
        """Close the connections to the search service. Calling it again does nothing."""
        if self._owns_client:
            await self._client.aclose()


def web_library_from_environment(environ: Mapping[str, str]) -> WebLibrary | None:
    """Return a library over the first service that *environ* configures (Tavily, Brave, SearXNG), or None.

    Raises `MissingExtraError` if a service is configured but the extra `web` is not installed.
    """
    backend: SearchBackend | None = None
    if key := environ.get("TAVILY_API_KEY", "").strip():
        backend = Tavily(key)
    elif key := environ.get("BRAVE_API_KEY", "").strip():
        backend = Brave(key)
    elif url := environ.get("SEARXNG_URL", "").strip():
        backend = SearXNG(url)
    allow_private = environ.get(ALLOW_VARIABLE, "").strip() == "1"
    return WebLibrary(backend, allow_private=allow_private) if backend else None
