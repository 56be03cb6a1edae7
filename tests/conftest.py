"""All tests run without the network and without the API keys of the machine."""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No test measures time: on a busy machine, making an example may take seconds.
settings.register_profile("concertino", deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


_LOCAL_NAMES = ("", "localhost", socket.gethostname())


def _is_local(host: object) -> bool:
    """Return whether *host* is an address of this machine, or a name that needs no look-up elsewhere."""
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    try:
        return text is None or text in _LOCAL_NAMES or ipaddress.ip_address(str(text)).is_loopback
    except ValueError:
        return False


def _is_address(host: object) -> bool:
    """Return whether *host* is an address in any notation of the system's resolver, such as `127.1`."""
    for convert in (ipaddress.ip_address, socket.inet_aton):
        try:
            convert(str(host))
            return True
        except (ValueError, OSError):
            continue
    return False


def _guard(event: str, details: tuple[Any, ...]) -> None:
    """Refuse every connection and every look-up off this machine, by whichever library and thread it is made."""
    if event == "socket.getaddrinfo" or event.startswith("socket.gethostby"):
        host = details[0]
        if _is_address(host):
            return  # it is converted, not looked up
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg") and isinstance(details[1], tuple):
        host = details[1][0]
    else:
        return
    if not _is_local(host):
        raise AssertionError(f"a test tried to reach {host!r}: {event}")


sys.addaudithook(_guard)  # it cannot be removed: it guards the whole session, also while tests are collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with servers that coverage counts."""
    for item in items:
        marks = {each.name for each in item.iter_markers()}
        long = marks & {"sweep", "wheel", "slow", "node", "browser"}
        if (not long and "postgres" in marks) or (long == {"slow"} and "mcp" in item.path.parts):
            item.add_marker("covered")


def pytest_collection_finish() -> None:
    """Take the imported modules and the tests out of garbage collection, which would visit them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the keys of this machine."""
    for key in _KEYS:
        monkeypatch.delenv(key, raising=False)


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


@pytest.fixture(autouse=True)
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget how many tokens models billed in earlier tests: a process learns it, and estimates better."""
    monkeypatch.setattr("concertino.token_engine.token_engine._SHARED", {})
