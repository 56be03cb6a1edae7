"""All tests run without the network and without the API keys of the machine."""

from __future__ import annotations

import functools
import gc
import ipaddress
import os
import socket
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


def _refuse(host: object, call: str) -> None:
    if not _is_local(host):
        raise AssertionError(f"a test tried to reach {host!r}: {call}")


def _guard_lookup(name: str) -> None:
    lookup = getattr(socket, name)

    @functools.wraps(lookup)
    def guarded(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_address(host):  # an address is converted, not looked up
            _refuse(host, name)
        return lookup(host, *args, **kwargs)

    setattr(socket, name, guarded)


def _guard_method(name: str) -> None:
    method = getattr(socket.socket, name)

    @functools.wraps(method)
    def guarded(self: socket.socket, *args: Any) -> Any:
        if isinstance(args[-1], tuple):  # the address is the last argument; that of a Unix socket is a path
            _refuse(args[-1][0], name)
        return method(self, *args)

    setattr(socket.socket, name, guarded)


# The whole session refuses every connection and look-up off this machine, also while tests are collected. An audit hook
# would do it too, but in Python 3.11 a thread that switches in the hook makes `sys.settrace`, and with it a coverage
# measurement, fail in another thread (CPython's issue 98257).
for each in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
    _guard_lookup(each)
for each in ("connect", "connect_ex", "sendto", "sendmsg"):
    _guard_method(each)


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
