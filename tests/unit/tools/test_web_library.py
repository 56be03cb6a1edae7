"""Search services, against a local server with their response formats."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from concertino.errors import LibraryError, MissingExtraError
from concertino.tools.library import source_id
from concertino.tools.web import Brave, SearchBackend, SearXNG, Tavily, WebLibrary, web_library_from_environment

from .web_server import Reply, Request, WebServer


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture(params=["tavily", "brave", "searxng"])
def backend(request: pytest.FixtureRequest, server: WebServer) -> SearchBackend:
    made: dict[str, SearchBackend] = {
        "tavily": Tavily("key-1", base_url=server.url),
        "brave": Brave("key-1", base_url=server.url),
        "searxng": SearXNG(server.url),
    }
    return made[request.param]


PATHS = {"Tavily": "/search", "Brave": "/res/v1/web/search", "SearXNG": "/search"}


def answer(backend: SearchBackend, *urls: str) -> bytes:
    """Results in the form of each service."""
    field = "description" if backend.name == "Brave" else "content"
    results = [{"url": url, "title": f"Page <b>{n}</b> &amp; more", field: f"Text {n}"} for n, url in enumerate(urls)]
    return json.dumps({"web": {"results": results}} if backend.name == "Brave" else {"results": results}).encode()


@pytest.fixture
async def library(backend: SearchBackend) -> AsyncIterator[WebLibrary]:
    library = WebLibrary(backend, allow_private=True)
    yield library
    await library.close()


async def test_results_become_hits(server: WebServer, backend: SearchBackend, library: WebLibrary) -> None:
    urls = ("https://a.example/1", "https://b.example/2", "https://a.example/1", "ftp://c.example/3")
    server.replies[PATHS[backend.name]] = Reply(answer(backend, *urls), "application/json")
    hits = await library.search("newts and ponds", 5)
    assert [hit.source.location for hit in hits] == ["https://a.example/1", "https://b.example/2"]
    assert hits[0].source.id == source_id("https://a.example/1")
    assert hits[0].source.title == "Page 0 & more"
    assert hits[0].snippet == "Text 0"
    assert hits[0].score > hits[1].score
    assert library.name == f"the web ({backend.name})"


async def test_requests_follow_each_service_s_api(server: WebServer) -> None:
    for backend in (
        Tavily("key-1", base_url=server.url),
        Brave("key-2", base_url=server.url),
        SearXNG(server.url + "/"),
    ):
        server.replies[PATHS[backend.name]] = Reply(answer(backend), "application/json")
        library = WebLibrary(backend)
        assert list(await library.search("newts", 3)) == []
        await library.close()
    tavily, brave, searxng = server.requests
    assert (tavily.method, tavily.headers["authorization"]) == ("POST", "Bearer key-1")
    assert json.loads(tavily.body) == {"query": "newts", "max_results": 3, "search_depth": "basic"}
    assert (brave.method, brave.headers["x-subscription-token"]) == ("GET", "key-2")
    assert _query(brave)["q"] == ["newts"]
    assert _query(brave)["count"] == ["3"]
    assert _query(searxng) == {"q": ["newts"], "format": ["json"]}
    assert tavily.headers["user-agent"].startswith("concertino/")


def _query(request: Request) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.path).query)


@pytest.mark.parametrize(("status", "remedy"), [(429, "wait"), (500, "try again later"), (400, "simpler query")])
async def test_an_http_error_names_the_service_the_status_and_the_remedy(
    server: WebServer, backend: SearchBackend, library: WebLibrary, status: int, remedy: str
) -> None:
    server.replies[PATHS[backend.name]] = Reply(b"{}", "application/json", status=status)
    with pytest.raises(LibraryError, match=rf"{backend.name}\): status {status}.*{remedy}"):
        await library.search("newts")


async def test_a_rejected_key_names_its_variable(server: WebServer) -> None:
    for backend in (Tavily("wrong", base_url=server.url), Brave("wrong", base_url=server.url)):
        server.replies[PATHS[backend.name]] = Reply(b"no", "text/plain", status=401)
        library = WebLibrary(backend)
        with pytest.raises(LibraryError, match=rf"status 401.*check {backend.key}") as caught:
            await library.search("newts")
        assert "wrong" not in str(caught.value)
        await library.close()


async def test_searxng_without_json_raises_with_the_remedy(server: WebServer) -> None:
    server.replies["/search"] = Reply(b"Forbidden", "text/html", status=403)
    library = WebLibrary(SearXNG(server.url))
    with pytest.raises(LibraryError, match=r"403.*settings\.yml.*formats: \[html, json\]"):
        await library.search("newts")
    await library.close()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"null", b'{"results": 3, "web": 4}', b'{"results": [1, {}]}'])
async def test_malformed_responses_give_no_results_or_a_library_error(
    server: WebServer, backend: SearchBackend, library: WebLibrary, body: bytes
) -> None:
    server.replies[PATHS[backend.name]] = Reply(body, "application/json")
    try:
        assert list(await library.search("newts")) == []
    except LibraryError as error:
        assert "not a JSON object" in str(error)


async def test_an_unreachable_service_raises_a_library_error() -> None:
    with WebServer() as gone:
        url = gone.url
    library = WebLibrary(SearXNG(url))
    with pytest.raises(LibraryError, match=r"SearXNG\): no connection"):
        await library.search("newts")
    await library.close()
    with pytest.raises(LibraryError, match="closed"):
        await library.search("newts")


@pytest.mark.parametrize("query", ["", "  ", "\x00", "\ud800"])
async def test_an_empty_query_sends_no_request(server: WebServer, library: WebLibrary, query: str) -> None:
    assert list(await library.search(query)) == []
    assert server.requests == []


async def test_a_hit_opens_by_its_url_and_by_its_id(
    server: WebServer, backend: SearchBackend, library: WebLibrary
) -> None:
    page = f"{server.url}/page"
    server.replies["/page"] = Reply(b"Newts like ponds.", "text/plain")
    server.replies[PATHS[backend.name]] = Reply(answer(backend, page), "application/json")
    (hit,) = await library.search("newts")
    for location in (page, hit.source.id):
        opened = await library.open(location)
        assert opened.text == "Newts like ponds."
        assert opened.source == hit.source
    with pytest.raises(LibraryError, match="neither a URL nor the source id"):
        await library.open("s0000000000")


def test_the_environment_chooses_the_service() -> None:
    everything = {"TAVILY_API_KEY": "a", "BRAVE_API_KEY": "b", "SEARXNG_URL": "http://localhost:1"}
    names = []
    while everything:
        library = web_library_from_environment(everything)
        assert library is not None
        names.append(library.name)
        everything.pop(next(iter(everything)))
    assert names == ["the web (Tavily)", "the web (Brave)", "the web (SearXNG)"]
    assert web_library_from_environment({"TAVILY_API_KEY": " "}) is None


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"concertino\[web\]"):
        web_library_from_environment({"TAVILY_API_KEY": "a"})
