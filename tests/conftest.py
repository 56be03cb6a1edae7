"""All tests run without the network and without the API keys of the machine."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("concertino", deadline=None)  # no test measures time
settings.load_profile("concertino")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
_KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "TAVILY_API_KEY",
    "BRAVE_API_KEY",
    "SEARXNG_URL",
)


def _is_local(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True  # a Unix socket
    host = str(address[0])
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture(autouse=True)
def network_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that connects to another machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(self: socket.socket, address: Any) -> None:
        if not _is_local(address):
            raise AssertionError(f"a test tried to connect to: {address}")
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        if not _is_local(address):
            raise AssertionError(f"a test tried to connect to: {address}")
        return connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_ex)
    for key in _KEYS:
        monkeypatch.delenv(key, raising=False)
    yield


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Run async tests and fixtures on asyncio with its own event loop."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture
def data() -> Path:
    """Return the folder of recorded data next to the repository; without it, skip the test, or fail in `.ci/run`."""
    if not DATA.is_dir():
        if "REQUIRE_DATA" in os.environ:
            pytest.fail(f"recorded data is missing: {DATA}")
        pytest.skip("needs recorded data that is not part of the repository (../shared/data)")
    return DATA
