"""Chunks: the parts of a document that a search returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .document import Document, one_line
from .markdown import Block, blocks, join

LONGEST = 1_800
_ENOUGH = 900
"""Once a chunk has this many characters, the next paragraph that does not fit in begins another one."""
_CHANGES = re.compile(r"(?:^|[/_. -])(?:change(?:s|log)|release[-_ ]?notes?|whatsnew|what['’]?s[-_ ]new)(?:$|[/_. -])")
_RELEASE = re.compile(r"(?:[\w.'’-]+ ){0,3}v?(\d+(?:\.\d+)+\w*)(?:[ ,(\[:–—-]+(?:\W*\d[\d. -]*\d|\w*released?.*|.*\b\d{4}\b.*))?\W*$", re.I)  # noqa: E501
_DATE = re.compile(r"\b(?:\d{4}-\d\d-\d\d|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}|\d{1,2} [A-Z][a-z]{2,8}\.? \d{4})\b")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A few paragraphs under one heading."""

    headings: tuple[str, ...]
    """The path of headings above the text, outermost first."""
    body: str
    """Markdown, without the headings."""
    version: str
    """The version that the chunk belongs to: from the nearest heading that names one, else from the document."""
    date: str
    is_change: bool
    """True for entries of changelogs, release notes and the like."""


@dataclass(slots=True)
class _Section:
    """The headings above the current position, and the blocks that are not in a chunk yet."""

    document: Document
    is_changelog: bool
    path: list[Block] = field(default_factory=list)
    parts: list[Block] = field(default_factory=list)
    released: str = ""

    @property
    def size(self) -> int:
        return sum(len(block.text) + 2 for block in self.parts)

    def enter(self, heading: Block) -> None:
        while self.path and self.path[-1].level >= heading.level:
            self.path.pop()
        self.path.append(heading)
        self.released = ""

    def chunk(self) -> Iterator[Chunk]:
        """Yield what was collected, if there is anything."""
        if self.parts:
            headings = tuple(one_line(block.text) for block in self.path)
            releases = [match for heading in reversed(headings) if (match := _RELEASE.match(heading))]
            first = self.parts[0].text
            if releases and not self.released and len(first) < 120 and (stated := _DATE.search(first)):
                self.released = stated[0]
            version = releases[0][1] if releases else self.document.version
            dates = (date[0] for heading in reversed(headings) if (date := _DATE.search(heading)))
            date = next(dates, self.released or self.document.date)
            yield Chunk(headings, join(self.parts), version, date, self.is_changelog or bool(releases))
            self.parts = []


def chunks(document: Document) -> Iterator[Chunk]:
    """Divide *document* into chunks, in order. A paragraph that ends in a colon stays with what follows it."""
    found = [part for block in blocks(document.text) for part in _cut(block)]
    releases = sum(block.kind == "heading" and bool(_RELEASE.match(block.text)) for block in found)
    named = _CHANGES.search(re.sub(r"\.\w+$", "", document.location).lower()) or _CHANGES.search(document.title.lower())
    section = _Section(document, bool(named) or releases > 2)
    for block in found:
        if block.kind == "heading":
            yield from section.chunk()
            section.enter(block)
            continue
        introduced = block.kind in ("code", "item") and section.parts and section.parts[-1].text.endswith(":")
        if not introduced and section.size >= _ENOUGH and section.size + len(block.text) > LONGEST:
            yield from section.chunk()
        section.parts.append(block)
    yield from section.chunk()


def _cut(block: Block) -> Iterator[Block]:
    """Yield *block*, cut between lines or words where it is longer than a chunk."""
    text = block.text
    while len(text) > 2 * LONGEST:
        at = max(text.rfind("\n", LONGEST // 2, LONGEST), text.rfind(". ", LONGEST // 2, LONGEST) + 1)
        at = at if at > 0 else LONGEST
        head, text = text[:at], text[at:].lstrip("\n")
        if block.kind == "code":
            head, text = f"{head}\n{text_fence(block.text)}", f"{text_fence(block.text)}\n{text}"
        yield Block(block.kind, head)
    yield Block(block.kind, text, block.level)


def text_fence(code: str) -> str:
    """Return the fence of a code block."""
    return code[: len(code) - len(code.lstrip("`~"))]
