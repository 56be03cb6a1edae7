"""Search services: clients for Tavily, Brave and SearXNG behind one port."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import LibraryError
from ...records import record

if TYPE_CHECKING:
    import httpx2

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


@record(kw_only=True)
class Result:
    """A result of a search service."""

    url: str
    title: str
    snippet: str


class SearchBackend(Protocol):
    """A search service."""

    name: str
    """Display name, such as `Tavily`."""
    key: str
    """Environment variable of the service's key or URL."""

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Return up to *limit* results, best first.

        Raises `LibraryError` if the service rejects the search and `httpx2.HTTPError` if the connection fails.
        """
        ...


class Tavily:
    """The Tavily search API (https://docs.tavily.com/documentation/api-reference/endpoint/search)."""

    name = "Tavily"
    key = "TAVILY_API_KEY"

    def __init__(self, api_key: str, *, base_url: str = "https://api.tavily.com") -> None:
        self._key = api_key
        self._url = f"{base_url.rstrip('/')}/search"

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Return up to 20 results, best first."""
        body = {"query": query, "max_results": min(limit, 20), "search_depth": "basic"}
        response = await client.post(self._url, json=body, headers={"Authorization": f"Bearer {self._key}"})
        return _results(_json(self, response).get("results"), "content")


class Brave:
    """The Brave search API (https://api-dashboard.search.brave.com/api-reference/web/search/get)."""

    name = "Brave"
    key = "BRAVE_API_KEY"

    def __init__(self, api_key: str, *, base_url: str = "https://api.search.brave.com") -> None:
        self._key = api_key
        self._url = f"{base_url.rstrip('/')}/res/v1/web/search"

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Return up to 20 results, best first. The query is cut to the limit of 400 characters and 50 terms."""
        asked = " ".join(query.split()[:50])[:400]
        parameters: dict[str, str | int] = {"q": asked, "count": min(limit, 20), "text_decorations": "false"}
        headers = {"X-Subscription-Token": self._key, "Accept": "application/json"}
        response = await client.get(self._url, params=parameters, headers=headers)
        web = _json(self, response).get("web")
        return _results(web.get("results") if isinstance(web, dict) else None, "description", "extra_snippets")


class SearXNG:
    """The search API of a SearXNG instance (https://docs.searxng.org/dev/search_api.html)."""

    name = "SearXNG"
    key = "SEARXNG_URL"

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url.rstrip('/')}/search"

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Return results of the first page: the service has no parameter for their number."""
        response = await client.get(self._url, params={"q": query, "format": "json"})
        if response.status_code == 403:
            raise LibraryError(
                "web search (SearXNG): status 403; enable JSON in its settings.yml (search: formats: [html, json])"
                " and restart it, or exempt this client from its limiter"
            )
        return _results(_json(self, response).get("results"), "content")[:limit]


def _remedy(backend: SearchBackend, status: int) -> str:
    if status in (401, 403):
        return f"the key was rejected; check {backend.key}"
    if status == 429:
        return "too many requests; wait and try again"
    if status in (402, 432, 433):
        return f"the quota of the key in {backend.key} is exhausted; raise it or use another service"
    if status >= 500:
        return "the service failed; try again later"
    return "the service rejected the request; try a shorter, simpler query"


def _json(backend: SearchBackend, response: httpx2.Response) -> Mapping[str, Any]:
    """Return the response as a JSON object. Raises `LibraryError`, naming the service, the status and the remedy."""
    status = response.status_code
    if status != 200:
        raise LibraryError(f"web search ({backend.name}): status {status}; {_remedy(backend, status)}")
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise LibraryError(f"web search ({backend.name}): the response is not a JSON object; check {backend.key}")
    return answer


def _plain(text: object) -> str:
    """Return *text* without tags and entities, which some services leave in their results."""
    return " ".join(unescape(_TAG.sub("", text)).split()) if isinstance(text, str) else ""


def _results(found: object, field: str, more: str = "") -> list[Result]:
    """Parse a service's results; skip entries without a web address."""
    results: dict[str, Result] = {}
    for entry in found if isinstance(found, list) else []:
        url = entry.get("url") if isinstance(entry, dict) else None
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            extra = entry.get(more) if more else None
            texts = [entry.get(field), *(extra if isinstance(extra, list) else [])]
            snippet = "\n\n".join(dict.fromkeys(filter(None, map(_plain, texts))))
            results.setdefault(url, Result(url=url, title=_plain(entry.get("title")) or url, snippet=snippet))
    return list(results.values())
