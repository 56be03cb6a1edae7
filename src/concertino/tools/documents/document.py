"""A document, in the form that every reader returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """The title and text of a document, with the version and date that it states."""

    title: str = ""
    text: str = ""
    """Markdown."""
    version: str = ""
    date: str = ""
    location: str = ""
    problem: str = ""
    """The reason why the document cannot be searched; empty for a readable one."""


def one_line(text: str) -> str:
    """Return *text* on one line, without control characters.

    Titles and locations pass through here, since a line break in a file's name could forge an entry in a list.
    """
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
