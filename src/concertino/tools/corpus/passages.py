"""Cutting a document into passages: long enough to answer, short enough to quote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .blocks import Block

LONGEST = 1_500
_ENOUGH = 800
"""A section that ends after this many characters ends the passage too; a shorter one is joined by the next."""
_LEAST = 300
_SENTENCE_END = re.compile(r"(?<=[.!?。!?])(?:[\"'\u201d\u2019)\]]*)\s+|(?<=[。!?])")


@dataclass(frozen=True, slots=True)
class Passage:
    """What a search finds: a few paragraphs under a heading."""

    heading: str
    """The heading that stands above it, and those inside it."""
    body: str
    headings: tuple[str, ...]
    """The headings inside it, each on its own."""


def _windows(pieces: Sequence[str], glue: str) -> Iterator[str]:
    """Pieces put together up to the longest passage; a single piece that is longer is cut."""
    window = ""
    for piece in pieces:
        while len(piece) > LONGEST:
            cut = piece.rfind(" ", _LEAST, LONGEST) if window == "" else 0
            if window:
                yield window
                window = ""
                continue
            cut = cut if cut > 0 else LONGEST
            yield piece[:cut]
            piece = piece[cut:].lstrip()  # noqa: PLW2901  the rest of the piece is what comes next
        if window and len(window) + len(glue) + len(piece) > LONGEST:
            yield window
            window = piece
        else:
            window = f"{window}{glue}{piece}" if window else piece
    if window.strip():
        yield window


def _cut(block: Block) -> Iterator[Block]:
    """The block itself, or parts of it that are no longer than a passage."""
    if len(block.text) <= LONGEST:
        yield block
    elif "\n" in block.text:
        for window in _windows(block.text.split("\n"), "\n"):
            yield Block(block.kind, window)
    else:
        for window in _windows([part for part in _SENTENCE_END.split(block.text) if part], " "):
            yield Block(block.kind, window)


class _Collector:
    """The passage that is being filled."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._inside: list[str] = []
        self._above = ""
        self.size = 0
        self.has_text = False

    def add(self, block: Block) -> None:
        if block.kind == "heading":
            self._inside.append(block.text)
        else:
            self.has_text = True
        self._parts.append(block.text)
        self.size += len(block.text) + 2

    def flush(self) -> Iterator[Passage]:
        if self._parts:
            headings = [*([self._above] if self._above else []), *self._inside]
            yield Passage(" · ".join(headings), "\n\n".join(self._parts), tuple(self._inside))
        self._above = self._inside[-1] if self._inside else self._above
        self._parts, self._inside, self.size, self.has_text = [], [], 0, False


def passages(blocks: Sequence[Block]) -> Iterator[Passage]:
    """The passages of a document, in order; together they hold all of its text."""
    waiting: Passage | None = None
    for passage in _filled(blocks):
        # A scrap at the end says little by itself, and being short it would be found too often.
        if waiting and len(passage.body) < _LEAST:
            heading = " · ".join(filter(None, [waiting.heading, *passage.headings]))
            waiting = Passage(heading, f"{waiting.body}\n\n{passage.body}", waiting.headings + passage.headings)
            continue
        if waiting:
            yield waiting
        waiting = passage
    if waiting:
        yield waiting


def _filled(blocks: Sequence[Block]) -> Iterator[Passage]:
    collector = _Collector()
    for block in (part for whole in blocks for part in _cut(whole)):
        if block.kind == "heading":
            full = collector.has_text and collector.size >= _ENOUGH
        else:
            full = collector.has_text and collector.size + len(block.text) > LONGEST and collector.size >= _LEAST
        if full:
            yield from collector.flush()
        collector.add(block)
    yield from collector.flush()
