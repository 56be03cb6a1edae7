"""The port behind search and fetch: a library of documents, on this machine or on the web."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol


def source_id(location: str) -> str:
    """The short, stable id under which a location is cited: the same on every machine and in every run.

    Ten hexadecimal digits of BLAKE2b, so that parallel researchers agree on it without talking to each other.
    """
    return "s" + blake2b(location.encode(), digest_size=5).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something that an answer can cite."""

    id: str
    """What stands between the brackets of a citation; see `source_id`."""
    title: str
    location: str
    """A file's path (with `#heading` where that is known), a dotted Python name, or a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One answer of a search, best first."""

    source: Source
    snippet: str
    """The passage that matched, in plain text: a paragraph or two, never a whole document."""
    score: float
    """Higher is better; comparable only within one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A document, opened."""

    source: Source
    text: str
    """Plain text; paragraphs are separated by one empty line, headings stand alone on a line."""


class Library(Protocol):
    """Where search and fetch look. Adapters: `corpus` (files and docstrings) and `web`."""

    name: str
    """For people: `Python standard library`, `2 folders`, `the web (Tavily)`."""

    async def search(self, query: str, limit: int = 8) -> Sequence[Hit]:
        """The best matches for *query*, best first; none is an empty sequence, never an error.

        Raises `LibraryError` when the library itself fails (network, key, damaged index).
        """
        ...

    async def open(self, location: str) -> Page:
        """The document at *location* (as a hit gave it), or with that source id.

        Raises `LibraryError`, naming the location and the reason: unknown, unreadable, refused, too large.
        """
        ...

    async def close(self) -> None:
        """Release files and connections. May be called twice."""
        ...
