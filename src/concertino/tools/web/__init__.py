"""The web as a `Library`: search through Tavily, Brave or SearXNG, and pages fetched with care."""

from .backends import Brave, Result, SearchBackend, SearXNG, Tavily
from .fetching import FetchLimits, fetch_page
from .web import WebLibrary, web_library_from_environment

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
