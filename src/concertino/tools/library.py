"""The port of the search and fetch tools: a library of documents, on this machine or on the web."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, Protocol

from ..records import record


def source_id(location: str) -> str:
    """Return the id with which a location is cited: the same on every machine and in every run.

    The id has 128 bits of BLAKE2b. Parallel researchers agree on it without coordination, and no page can get the id
    of another one.
    """
    return "s" + blake2b(location.encode(errors="surrogatepass"), digest_size=16).hexdigest()


SOURCE_ID = "s[0-9a-f]{10,64}"
"""Pattern of the ids that `source_id` returns, whole or copied incompletely by a model."""


@record(kw_only=True)
class Source:
    """A document that an answer can cite."""

    id: str
    """The text between the brackets of a citation; see `source_id`."""
    title: str
    location: str
    """A file's path, a dotted Python name, or a URL."""


@record(kw_only=True)
class Hit:
    """A search result: a passage of a document."""

    source: Source
    snippet: str
    """The passage, in Markdown: a few paragraphs, never a whole document."""
    score: float
    """Higher is better; comparable only within one search."""
    headings: tuple[str, ...] = ()
    """The headings above the passage, outermost first."""
    version: str = ""
    """The version that the passage belongs to, if the document states one."""
    date: str = ""
    """The date of the passage, if the document states one."""
    coverage: float | None = None
    """The share of the query that the passage contains, with more weight for rare terms; None if it is unknown."""


@record(kw_only=True)
class Page:
    """An opened document, or a section of one."""

    source: Source
    text: str
    """Markdown."""


class Library(Protocol):
    """A retrieval backend. Adapters: `tools.documents` (files and docstrings) and `tools.web`."""

    name: str
    """The name shown to people: `Python standard library`, `handbook`, `the web (Tavily)`."""

    @property
    def kind(self) -> Literal["documents", "web"]:
        """The kind of library, by which the research tools are named (`tools.builtin.research.TOOL_NAMES`)."""
        ...

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """Return the best matches for *query*, best first; an empty sequence without matches.

        Raises `LibraryError` if the library itself fails (network, key, damaged index).
        """
        ...

    async def open(self, location: str) -> Page:
        """Return the document at *location*: a location from a hit, or a source id.

        Raises `LibraryError` with the location and the reason: unknown, unreadable, refused, too large.
        """
        ...

    async def close(self) -> None:
        """Release files and connections. May be called twice."""
        ...
