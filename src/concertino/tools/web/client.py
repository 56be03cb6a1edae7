"""The HTTP client of an optional dependency, loaded when it is needed."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..._version import __version__
from ...errors import MissingExtraError

if TYPE_CHECKING:
    import httpx2

USER_AGENT = f"concertino/{__version__}"


def http() -> ModuleType:
    """The module `httpx2`. Raises `MissingExtraError` where it is not installed."""
    try:
        import httpx2  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "search and fetch on the web need httpx2; install it with: pip install 'concertino[web]'"
        ) from error
    return httpx2


def search_client() -> httpx2.AsyncClient:
    """A client for the search services, which are addresses of the user's choice: proxies apply."""
    client: httpx2.AsyncClient = http().AsyncClient(timeout=20.0, headers={"User-Agent": USER_AGENT})
    return client
