"""The HTTP client from the optional dependency httpx2, imported on first use."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..._version import __version__
from ...extras import extra

if TYPE_CHECKING:
    import httpx2

USER_AGENT = f"concertino/{__version__}"


def http() -> ModuleType:
    """Return the module `httpx2`. Raises `MissingExtraError` if it cannot be imported."""
    with extra("web", "web search"):
        import httpx2  # noqa: PLC0415
    return httpx2


def search_client() -> httpx2.AsyncClient:
    """Return a client for search services. Their URLs are the user's own settings, so it uses the proxies."""
    client: httpx2.AsyncClient = http().AsyncClient(timeout=20.0, headers={"User-Agent": USER_AGENT})
    return client
