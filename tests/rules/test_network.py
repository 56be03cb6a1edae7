"""The guard of tests/conftest.py: no test reaches another machine."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import Callable

import pytest

ADDRESS = ("192.0.2.1", 9)  # reserved for documentation (RFC 5737): nothing answers there


@pytest.mark.parametrize(
    "reach",
    [
        lambda sock: sock.connect(ADDRESS),
        lambda sock: sock.connect_ex(ADDRESS),
        lambda sock: sock.sendto(b"", ADDRESS),
        lambda sock: sock.sendto(b"", 0, ADDRESS),
        lambda sock: sock.sendmsg([b""], [], 0, ADDRESS),
        lambda sock: socket.getaddrinfo("example.org", 80),
        lambda sock: socket.gethostbyname("example.org"),
        lambda sock: socket.gethostbyname_ex("example.org"),
        lambda sock: socket.gethostbyaddr("example.org"),
        lambda sock: urllib.request.urlopen("http://example.org"),
    ],
)
def test_another_machine_is_refused(reach: Callable[[socket.socket], object]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(AssertionError, match="to reach"):
        reach(sock)


async def test_asyncio_is_refused() -> None:
    for host in ("example.org", ADDRESS[0]):
        with pytest.raises(AssertionError, match="to reach"):
            await asyncio.open_connection(host, 9)


def test_this_machine_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
