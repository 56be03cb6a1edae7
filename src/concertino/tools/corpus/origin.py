"""The port between an index and what it holds: files, or docstrings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .blocks import Document


@dataclass(frozen=True, slots=True)
class Changes:
    """What must be done to an index to make it up to date."""

    load: Sequence[str] = ()
    removed: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.load or self.removed)


class Origin(Protocol):
    """Where documents come from."""

    name: str
    """For people, see `Library.name`."""
    key: str
    """The name of the index file, without its ending: the same for the same documents."""
    empty: str
    """What to say, and what to do, where there is nothing to index."""

    def changes(self, known: Mapping[str, str]) -> Changes:
        """Compare with the stamps by location that the index has."""
        ...

    def load(self, changes: Changes, stopped: Callable[[], bool]) -> Iterator[Document]:
        """Read what is new or changed. What cannot be read is reported, not raised.

        Where reading takes long before the first document, *stopped* is asked in between, and ends it.
        """
        ...

    def remarks(self) -> Sequence[str]:
        """What should be said of the documents after loading: what was left out, and why."""
        ...

    def resolve(self, location: str) -> str:
        """The location by which the index knows what someone calls *location*; itself where there is no other."""
        ...
