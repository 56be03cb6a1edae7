"""What a document is made of, whatever its format was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["heading", "prose", "code"]


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph (or a list, one item to the line), or lines that must stay as they are."""

    kind: BlockKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document, ready to be indexed."""

    location: str
    title: str
    blocks: Sequence[Block] = ()
    appendix: str = ""
    """Shown when the document is opened, but not searched: lists of names, for example."""
    stamp: str = ""
    """What changes when the document changes; the index compares it before it reads the document again."""
    problem: str = ""
    """Why there is nothing to search in it; a document with a problem is remembered, not shown."""

    @property
    def text(self) -> str:
        """The whole document as plain text."""
        parts = [block.text for block in self.blocks]
        return "\n\n".join([*parts, self.appendix] if self.appendix else parts)


def first_heading(blocks: Sequence[Block]) -> str:
    """The first heading, or nothing: the usual title of a document."""
    return next((block.text for block in blocks if block.kind == "heading"), "")


def indented(lines: Sequence[str]) -> str:
    """Lines set off by four spaces, so that a reader sees that they are code or a table."""
    return "\n".join(f"    {line}".rstrip() for line in lines)
