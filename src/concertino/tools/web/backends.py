"""The search services: each turns a question into results, or says why it cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import LibraryError

if TYPE_CHECKING:
    import httpx2

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result of a search service."""

    url: str
    title: str
    snippet: str


class SearchBackend(Protocol):
    """A search service."""

    name: str
    """For people: `Tavily`."""
    key: str
    """The environment variable that a user sets for it."""

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Results, best first. Raises `LibraryError`, and `httpx2.HTTPError` for a failed connection."""
        ...


class Tavily:
    """https://docs.tavily.com/documentation/api-reference/endpoint/search"""

    name = "Tavily"
    key = "TAVILY_API_KEY"

    def __init__(self, api_key: str, *, base_url: str = "https://api.tavily.com") -> None:
        self._key = api_key
        self._url = f"{base_url.rstrip('/')}/search"

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Up to 20 results."""
        body = {"query": query, "max_results": min(limit, 20), "search_depth": "basic"}
        response = await client.post(self._url, json=body, headers={"Authorization": f"Bearer {self._key}"})
        return _results(_json(self, response).get("results"), "content")


class Brave:
    """https://api-dashboard.search.brave.com/api-reference/web/search/get"""

    name = "Brave"
    key = "BRAVE_API_KEY"

    def __init__(self, api_key: str, *, base_url: str = "https://api.search.brave.com") -> None:
        self._key = api_key
        self._url = f"{base_url.rstrip('/')}/res/v1/web/search"

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """Up to 20 results; the service takes at most 400 characters and 50 words, and the rest is cut."""
        asked = " ".join(query.split()[:50])[:400]
        parameters: dict[str, str | int] = {"q": asked, "count": min(limit, 20), "text_decorations": "false"}
        headers = {"X-Subscription-Token": self._key, "Accept": "application/json"}
        response = await client.get(self._url, params=parameters, headers=headers)
        web = _json(self, response).get("web")
        return _results(web.get("results") if isinstance(web, dict) else None, "description", "extra_snippets")


class SearXNG:
    """https://docs.searxng.org/dev/search_api.html"""

    name = "SearXNG"
    key = "SEARXNG_URL"

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url.rstrip('/')}/search"

    async def search(self, client: httpx2.AsyncClient, query: str, limit: int) -> Sequence[Result]:
        """The first page of results: the service has no parameter for their number."""
        response = await client.get(self._url, params={"q": query, "format": "json"})
        if response.status_code == 403:
            raise LibraryError(
                "web search (SearXNG): status 403; enable JSON in its settings.yml (search: formats: [html, json])"
                " and restart it, or let its limiter pass this program"
            )
        return _results(_json(self, response).get("results"), "content")[:limit]


def _remedy(backend: SearchBackend, status: int) -> str:
    if status in (401, 403):
        return f"the key is refused; check {backend.key}"
    if status == 429:
        return "too many requests; wait and try again"
    if status in (402, 432, 433):
        return f"the plan of the key in {backend.key} is used up; raise its limit or use another service"
    if status >= 500:
        return "the service failed; try again later"
    return "the service does not accept the request; try a shorter, simpler query"


def _json(backend: SearchBackend, response: httpx2.Response) -> Mapping[str, Any]:
    """The answer as an object. Raises `LibraryError` with the service, the status and the remedy."""
    status = response.status_code
    if status != 200:
        raise LibraryError(f"web search ({backend.name}): status {status}; {_remedy(backend, status)}")
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise LibraryError(f"web search ({backend.name}): the answer is not JSON; check the address in its settings")
    return answer


def _plain(text: object) -> str:
    """Text of a result: without tags and entities, which some services leave in."""
    return " ".join(unescape(_TAG.sub("", text)).split()) if isinstance(text, str) else ""


def _results(found: object, field: str, more: str = "") -> list[Result]:
    """Results from what a service sent; entries without a web address are left out."""
    results: dict[str, Result] = {}
    for entry in found if isinstance(found, list) else []:
        url = entry.get("url") if isinstance(entry, dict) else None
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            extra = entry.get(more) if more else None
            texts = [entry.get(field), *(extra if isinstance(extra, list) else [])]
            snippet = "\n\n".join(dict.fromkeys(filter(None, map(_plain, texts))))
            results.setdefault(url, Result(url=url, title=_plain(entry.get("title")) or url, snippet=snippet))
    return list(results.values())
