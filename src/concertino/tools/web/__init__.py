"""The web as a `Library`: search with Tavily, Brave or SearXNG, and guarded page fetches."""

from .backends import Brave, Result, SearchBackend, SearXNG, Tavily
from .fetch import FetchLimits, fetch_page
from .web_library import WebLibrary, web_library_from_environment

__all__ = [
    "Brave",
    "FetchLimits",
    "Result",
    "SearXNG",
    "SearchBackend",
    "Tavily",
    "WebLibrary",
    "fetch_page",
    "web_library_from_environment",
]
