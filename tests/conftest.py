"""For all tests: the network is off, and no key of the machine is seen."""

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
    """Connections go to this machine, or fail the test."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(self: socket.socket, address: Any) -> None:
        if not _is_local(address):
            raise AssertionError(f"a test reached for the network: {address}")
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        if not _is_local(address):
            raise AssertionError(f"a test reached for the network: {address}")
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
    """The folder of recorded data beside the repository; without it the test skips, and in CI it fails."""
    if not DATA.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"the recorded data is missing: {DATA}")
        pytest.skip("the recorded data is not beside this clone (../shared/data)")
    return DATA
