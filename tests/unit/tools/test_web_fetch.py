"""Fetching pages: rejected hosts, limits and text formats."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.errors import LibraryError
from concertino.tools.library import source_id
from concertino.tools.web import FetchLimits, fetch_page
from concertino.tools.web.addresses import is_public
from concertino.tools.workers import in_worker

from . import untrusted_work as work
from .web_server import Reply, WebServer

PAGE = (
    "<html><head><title>Ponds | Garden</title></head><body><nav>Home</nav><article><h1>Ponds</h1>"
    "<p>A pond needs shade for half of the day, or algae will take it over.</p>"
    "<p>Goldfish survive winters in ponds that are deeper than a metre.</p></article></body></html>"
)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


async def read(server: WebServer, reply: Reply, **limits: float) -> str:
    server.replies["/page"] = reply
    page = await fetch_page(f"{server.url}/page", allow_private=True, limits=FetchLimits(**limits))  # type: ignore[arg-type]
    return page.text


async def test_the_main_text_of_a_page_is_extracted(server: WebServer) -> None:
    server.replies["/page"] = Reply(PAGE.encode(), "text/html; charset=utf-8")
    page = await fetch_page(f"{server.url}/page", allow_private=True)
    assert page.source.title == "Ponds"
    assert page.source.location == f"{server.url}/page"
    assert page.source.id == source_id(f"{server.url}/page")
    assert page.text == (
        "# Ponds\n\nA pond needs shade for half of the day, or algae will take it over.\n\n"
        "Goldfish survive winters in ponds that are deeper than a metre."
    )
    (request,) = server.requests
    assert request.headers["user-agent"].startswith("concertino/")
    assert request.headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(b"# Ponds\n\nAre wet.", "text/markdown"), "# Ponds\n\nAre wet."),
        (Reply(json.dumps({"pond": 1}).encode(), "application/json"), '{"pond": 1}'),
        (Reply(b'{"a": 1}', "application/ld+json"), '{"a": 1}'),
        (Reply(b"caf\xe9", "text/plain; charset=latin-1"), "café"),
        (Reply(b"caf\xe9", "text/plain; charset=base64"), "caf\ufffd"),
        (Reply(b"x" * 100, "text/plain; charset=idna"), "x" * 100),
        (Reply("café".encode("utf-16"), "text/plain"), "café"),
        (Reply(b"<p>Just newts.</p>", "text/html"), "Just newts."),
        (Reply(b"", "text/html"), "[This page has no text.]"),
        (Reply(b"no type", ""), "no type"),
        (Reply('<meta charset="cp1251"><p>Пруд</p>'.encode("cp1251"), "text/html"), "Пруд"),
    ],
)
async def test_text_formats_are_decoded(server: WebServer, reply: Reply, text: str) -> None:
    assert await read(server, reply) == text


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "video/mp4", "application/zip"])
async def test_other_content_types_raise(server: WebServer, kind: str) -> None:
    with pytest.raises(LibraryError, match=f"content type {kind}, which is not text"):
        await read(server, Reply(b"%PDF-1.7", kind))


@pytest.mark.parametrize(
    ("status", "remedy"), [(404, "does not exist"), (403, "denies access"), (429, "wait"), (503, "later")]
)
async def test_an_http_error_raises_with_a_remedy(server: WebServer, status: int, remedy: str) -> None:
    with pytest.raises(LibraryError, match=f"status {status}.*{remedy}"):
        await read(server, Reply(b"no", "text/plain", status=status))


async def test_a_page_over_the_size_limit_raises(server: WebServer) -> None:
    with pytest.raises(LibraryError, match=r"larger than 0\.001 MB"):
        await read(server, Reply(b"x" * 2_000, "text/plain"), bytes=1_000)


async def test_the_size_limit_applies_after_decompression(server: WebServer) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    reply = Reply(bomb, "text/plain", headers={"Content-Encoding": "gzip"})
    with pytest.raises(LibraryError, match="larger than 5 MB"):
        await read(server, reply)
    small = Reply(gzip.compress(b"Newts."), "text/plain", headers={"Content-Encoding": "gzip"})
    assert await read(server, small) == "Newts."
    with pytest.raises(LibraryError, match="cannot be fetched"):
        await read(server, Reply(b"no gzip", "text/plain", headers={"Content-Encoding": "gzip"}))


async def test_a_hanging_page_raises_at_the_time_limit(server: WebServer) -> None:
    with pytest.raises(LibraryError, match=r"longer than 0\.05 s"):
        await read(server, Reply(hangs=True), seconds=0.05)


async def test_redirects_are_followed_up_to_a_limit(server: WebServer) -> None:
    server.replies["/end"] = Reply(b"The end.", "text/plain")
    assert await read(server, Reply(status=302, headers={"Location": "/end", "Set-Cookie": "a=b"})) == "The end."
    assert "cookie" not in server.requests[-1].headers
    with pytest.raises(LibraryError, match="redirects more than 5 times"):
        await read(server, Reply(status=302, headers={"Location": "/page"}))


PUBLIC = "93.184.215.14"


class Names:
    """A resolver with scripted answers."""

    def __init__(self, **names: Sequence[str]) -> None:
        self.names = names
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("unknown name")
        return self.names[host]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::]", "[fe80::1]",
        "[fc00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "[::127.0.0.1]", "[2606:4700::5efe:808:808]", "[2001:0:808:808::1]",
        "[64:ff9b:1::808:808]", "[fec0::1]", "[2001:db8::1]", "user:pass@127.0.0.1",
    ],
)  # fmt: skip
async def test_private_addresses_are_rejected(server: WebServer, host: str) -> None:
    with pytest.raises(LibraryError):
        await fetch_page(f"http://{host}:{server.port}/page")
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.example/",
        "gopher://a.example",
        "javascript:1",
        "//a.example",
        "http://",
        "",
        "http://[::1",
        "http://a.example:99999/",
    ],
)
async def test_other_urls_raise(url: str) -> None:
    with pytest.raises(LibraryError):
        await fetch_page(url, resolver=Names())


@pytest.mark.parametrize("answers", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::ffff:10.0.0.1"], [PUBLIC, "fe80::1%1"]])
async def test_a_host_with_any_private_address_raises(answers: list[str]) -> None:
    with pytest.raises(LibraryError, match=r"'inside\.example' resolves to .*CONCERTINO_ALLOW_PRIVATE_ADDRESSES=1"):
        await fetch_page("http://inside.example/", resolver=Names(**{"inside.example": answers}))


async def test_an_unresolvable_host_raises_with_its_name() -> None:
    with pytest.raises(LibraryError, match=r"cannot resolve the host 'nowhere\.example'"):
        await fetch_page("http://nowhere.example/", resolver=Names())
    with pytest.raises(LibraryError, match="has no address"):
        await fetch_page("http://empty.example/", resolver=Names(**{"empty.example": []}))


async def test_the_connection_uses_the_checked_address_and_the_requested_host(server: WebServer) -> None:
    server.replies["/page"] = Reply(b"Newts.", "text/plain")
    names = Names(**{"pond.example": ["127.0.0.1"]})
    page = await fetch_page(f"http://pond.example:{server.port}/page", allow_private=True, resolver=names)
    assert page.text == "Newts."
    # One look-up: the connection uses the checked address.
    assert names.asked == ["pond.example"]
    assert server.requests[0].headers["host"] == f"pond.example:{server.port}"


async def test_the_next_address_is_tried_after_a_failed_connection(server: WebServer) -> None:
    server.replies["/page"] = Reply(b"Newts.", "text/plain")
    names = Names(**{"pond.example": ["::1", "127.0.0.1"]})
    page = await fetch_page(f"http://pond.example:{server.port}/page", allow_private=True, resolver=names)
    assert page.text == "Newts."


async def test_every_redirect_is_checked(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # Treat the loopback address as public, so that the test server can send the redirect.
    monkeypatch.setattr(
        "concertino.tools.web.addresses.is_public", lambda address: str(address) == "127.0.0.1" or is_public(address)
    )
    names = Names(**{"pond.example": ["127.0.0.1"], "inside.example": ["10.0.0.1"], "twice.example": ["127.0.0.2"]})
    for target in ("http://inside.example/", "http://[::1]/", "http://169.254.169.254/latest", "http://twice.example/"):
        names.names.setdefault(target.split("/")[2].strip("[]"), [target.split("/")[2].strip("[]")])
        server.replies["/page"] = Reply(status=301, headers={"Location": target})
        with pytest.raises(LibraryError, match="not a public address"):
            await fetch_page(f"http://pond.example:{server.port}/page", resolver=names)
    server.replies["/page"] = Reply(status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(LibraryError, match="use an http or https URL"):
        await fetch_page(f"http://pond.example:{server.port}/page", resolver=names)


async def test_proxies_of_the_environment_are_ignored(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert await read(server, Reply(b"Newts.", "text/plain")) == "Newts."


async def test_tls_uses_the_name_and_not_the_address() -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(4_096))
        writer.close()

    listener = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    names = Names(**{"pond.example": ["127.0.0.1"]})
    async with listener:
        with pytest.raises(LibraryError, match="cannot be fetched"):
            await fetch_page(f"https://pond.example:{port}/", allow_private=True, resolver=names)
    assert b"pond.example" in heard[0]


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=4, network="100.64.0.0/10"))
def test_embedding_does_not_make_an_address_public(address: object) -> None:
    number = int(ip_address(str(address)))
    wrapped = [f"::ffff:{address}", f"64:ff9b::{address}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"]
    assert not any(is_public(ip_address(text)) for text in [str(address), *wrapped])


async def test_hostile_markup_ends_at_the_time_limit_with_its_worker(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concertino.tools.web.content.read_page", work.hang_on_page)
    server.replies["/page"] = Reply(b"<html><body>hostile", "text/html")
    with pytest.raises(LibraryError, match="took longer than 1 s"):
        await fetch_page(f"{server.url}/page", allow_private=True, limits=FetchLimits(seconds=1))
    assert await in_worker(work.echo, 1) == 1


async def test_a_page_whose_reader_fails_is_an_error_of_the_library(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concertino.tools.web.content.read_page", work.fail_on_page)
    server.replies["/page"] = Reply(b"<html><body>hostile", "text/html")
    with pytest.raises(LibraryError, match=r"/page cannot be read \(ValueError: no\); try another source"):
        await fetch_page(f"{server.url}/page", allow_private=True)


PUBLIC_ADDRESSES = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "168.63.129.15",
    "168.63.129.17", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.31.195.255",
    "192.31.197.0", "192.52.194.1", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
    "192.175.47.1", "198.17.255.255", "198.20.0.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
    "2001:200::1", "2001:db7::", "2001:db9::", "2003::1", "2400::", "2606:4700:4700::1111", "2620:4f:7fff::1",
    "2620:4f:8001::", "2c0f::1", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8",
]  # fmt: skip
SPECIAL_ADDRESSES = [
    "0.0.0.0", "0.255.255.255", "10.0.0.1", "100.64.0.0", "100.100.100.200", "100.127.255.255", "127.0.0.1",
    "168.63.129.16", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.9",
    "192.0.0.10", "192.0.0.192", "192.0.0.254", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1",
    "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::8.8.8.8", "::ffff:10.0.0.1",
    "::ffff:0:8.8.8.8", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "2001::1",
    "2001:0:808:808::1", "2001:1::1", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1", "2001:20::1",
    "2001:30::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2002:c000:c0::", "2620:4f:8000::1",
    "3fff::1", "3fff:fff:ffff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "fec0::1", "ff02::1", "2606:4700::5efe:a00:1", "2606:4700::200:5efe:a00:1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC_ADDRESSES)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", SPECIAL_ADDRESSES)
def test_an_address_for_a_special_purpose_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@given(st.ip_addresses())
def test_what_is_public_is_so_for_the_standard_library_too(address: IPv4Address | IPv6Address) -> None:
    embeds = isinstance(address, IPv6Address) and (address.sixtofour or address in ip_network("64:ff9b::/96"))
    assert embeds or address.is_global or not is_public(address)
