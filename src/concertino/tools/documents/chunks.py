"""Chunks: the passages that are indexed, each under its path of headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .markdown import Block, Document, blocks, join

LONGEST = 1_800
_ENOUGH = 900
_LONGEST_HEADING = 300
_CHANGES = re.compile(r"(?:\b|_)(?:change(?:s|log)|release(?:s|notes)?|announce\w*|news|what.?s[-_ ]?new)(?:\b|_)")
_RELEASE = re.compile(
    r"(?:[^\W\d][\w.-]* ){0,3}v?(\d+(?:\.\d+)+\w*)(?:[^\w.]+(?:\W*\d[\d. -]*\d|\w*released?.*|.*\b\d{4}\b.*))?\W*$",
    re.I,
)
_DATE = re.compile(r"\b(?:\d{4}-\d\d-\d\d|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}|\d{1,2} [A-Z][a-z]{2,8}\.? \d{4})\b")


class Chunk(NamedTuple):
    """A few paragraphs under one heading."""

    headings: tuple[str, ...]  # outermost first
    body: str  # Markdown, without the headings
    version: str  # from the nearest heading that names a release, else from the document
    date: str
    is_change: bool
    """True for entries of changelogs, release notes and the like."""


class ReadDocument(NamedTuple):
    """A document of a collection, ready for the index."""

    title: str
    chunks: Sequence[Chunk]
    problem: str = ""
    """Reason why the document was not read in full; "" if it was."""


def divided(document: Document, location: str) -> ReadDocument:
    """Return *document* with its chunks."""
    return ReadDocument(document.title, list(chunks(document, location)))


def chunks(document: Document, location: str) -> Iterator[Chunk]:
    """Divide *document* into chunks, in order. A paragraph that ends in a colon stays with what follows it."""
    found = [part for block in blocks(document.text) for part in _cut(block)]
    releases = sum(block.kind == "heading" and bool(_RELEASE.match(block.text)) for block in found)
    name = re.sub(r"\.\w+$", "", location).lower()
    is_changelog = releases > 2 or bool(_CHANGES.search(name) or _CHANGES.search(document.title.lower()))
    path: list[Block] = []
    parts: list[Block] = []
    released = ""
    for block in [*found, Block("heading", "", 1)]:  # the last heading ends the last chunk
        size = sum(len(part.text) + 2 for part in parts)
        introduced = block.kind in ("code", "item") and parts and parts[-1].text.endswith(":")
        full = size >= _ENOUGH and size + len(block.text) > LONGEST and not introduced
        if parts and (full or block.kind == "heading"):
            headings = tuple(heading.text for heading in path)
            versions = [match[1] for heading in reversed(headings) if (match := _RELEASE.match(heading))]
            dates = [match[0] for heading in reversed(headings) if (match := _DATE.search(heading))]
            if versions and not released and len(parts[0].text) < 120 and (stated := _DATE.search(parts[0].text)):
                released = stated[0]  # "Released 2024-05-01" below the heading of a release
            version, date = [*versions, document.version][0], [*dates, released or document.date][0]
            yield Chunk(headings, join(parts), version, date, is_changelog or bool(versions))
            parts = []
        if block.kind == "heading":
            heading = block._replace(text=block.text[:_LONGEST_HEADING])  # every chunk below repeats it
            path, released = [*(above for above in path if above.level < block.level), heading], ""
        else:
            parts.append(block)


def _cut(block: Block) -> Iterator[Block]:
    """Yield *block*, cut between lines or sentences where it is much longer than a chunk."""
    text, fence = block.text, block.text[: len(block.text) - len(block.text.lstrip("`~"))]
    while len(text) > 2 * LONGEST:
        ends = (text.rfind(end, LONGEST // 2, LONGEST) + len(end) for end in ("\n", ". ", " "))
        at = next((end for end in ends if end > LONGEST // 2), LONGEST)
        head, text = text[:at].rstrip(), text[at:].lstrip("\n")
        if block.kind == "code":
            head, text = f"{head}\n{fence}", f"{fence}\n{text}"
        yield Block(block.kind, head)
    yield Block(block.kind, text, block.level)
