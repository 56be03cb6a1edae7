"""Pages: a tool's result, cut into sentences that know where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from textwrap import dedent
from typing import Literal

from .splitting import split_sentences
from .words import stems

ID = re.compile(r"\[(s[0-9a-f]{10})\]")
_FIRST = re.compile(r"\s*\[(s[0-9a-f]{10})\][ \t]*(.*)")
_LEFT_OUT = re.compile(r"\[\.\.\. .{0,60}\.\.\.\]\s*$|\[Cut here: ")
_MARKER = re.compile(r"\s*(?:[-*+•‣◦]\s+|\(?(?:\d{1,3}|[a-zA-Z])[.)]\s+|\[\d{1,3}\]\s+)(?=\S)")
_TERMINAL = re.compile(r"[.!?:;,。\uff01\uff1f][\"')\]]*$")
_FIELD = re.compile(r"[A-Z][\w /-]{1,30}: \S")
_FACT = re.compile(r"[A-Z][\w /-]{1,30}: .*(?:\d|^[a-z])")
_SIGNATURE = re.compile(r"(?:(?:async |abstract |static)*(?:class |def |method |property )?)[A-Za-z_][\w.]*\(")
_MAX_CODE_LINES = 14
_TOPIC_WORDS = 160
"""How much of a page says what it is about; fields such as `Author: ...` at its head are not counted."""

SentenceKind = Literal["prose", "item"]


@dataclass(slots=True)
class Sentence:
    """Something that can be quoted, word for word."""

    text: str
    kind: SentenceKind
    paragraph: int
    section: int
    heading: str
    stems: frozenset[str]
    intro: int | None = None
    """For an item of a list: the place of the sentence that introduces the list."""
    first: bool = False
    """Whether it begins its paragraph."""
    code: str = ""
    """The program text that directly follows it."""
    marker: str = ""
    """The number that it has in its list."""


@dataclass(slots=True)
class Page:
    """One opened document."""

    id: str
    title: str
    location: str
    stems: frozenset[str]
    """Of the title and of the end of the location."""
    start: int = 0
    """The place of the first sentence that is more than a field such as `Author: ...`."""
    topic: frozenset[str] = frozenset()
    """Of the title and of the first paragraphs: what the page is about."""
    sentences: list[Sentence] = field(default_factory=list)


@lru_cache(maxsize=48)
def parse_page(content: str) -> Page | None:
    """The page in a result of `fetch_page`, or None if it does not look like one."""
    match = _FIRST.match(content)
    if not match:
        return None
    location, _, body = content[match.end() :].lstrip("\n").partition("\n")
    title = match[2].strip() or location.strip()
    return _page(match[1], title, location.strip(), body)


def snippet_page(id: str, title: str, location: str, snippet: str) -> Page:
    """A search's hit as a page of its own: what can be quoted if the page itself cannot be opened."""
    return _page(id, title, location, snippet)


def _page(id_: str, title: str, location: str, body: str) -> Page:
    tail = re.split(r"[/\\]", location.rstrip("/\\"))[-1][:200]
    page = Page(id_, title, location, frozenset(stems(f"{title} {tail}")))
    _Reader(page).read(body)
    prose = (place for place, sentence in enumerate(page.sentences) if sentence.kind == "prose")
    page.start = next(prose, 0)
    page.topic = page.stems | _opening(page)
    return page


def _opening(page: Page) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    words = 0
    for sentence in page.sentences:
        words += len(sentence.text.split()) if sentence.kind == "prose" else 4
        if words > _TOPIC_WORDS:
            break
        found |= sentence.stems
    return found


class _Reader:
    """Walks over a page's blocks and adds its sentences."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.heading = ""
        self.section = 0
        self.paragraph = 0
        self.intro: int | None = None
        self.code_lines: list[str] = []
        self.code_blocks = 0
        # The location of a docstring is a dotted name, with which its title begins.
        plain = page.location and not re.search(r"[\s/\\#]|\.(?:md|rst|txt|html?|markdown)$", page.location)
        self.docstrings = bool(plain) and page.title.startswith(page.location)

    def read(self, body: str) -> None:
        """Add all sentences of *body*."""
        for block in re.split(r"\n(?:[ \t]*\n)+", body.strip("\n")):
            lines = [line for line in block.split("\n") if line.strip()]
            is_code = bool(lines) and all(line.startswith(("    ", "\t")) for line in lines)
            if not is_code:
                self.code_lines, self.code_blocks = [], 0
            if not lines or _LEFT_OUT.match(lines[0].strip()):
                self.intro = None
            elif is_code:
                self._code(lines)
            elif len(lines) == 1 and self._is_heading(lines[0]):
                self.heading = lines[0].strip()
                self.section += 1
                self.intro = None
            else:
                self._prose(lines)
            self.paragraph += 1

    def _is_heading(self, line: str) -> bool:
        line = line.strip()
        if line == self.page.title:
            return True
        if len(line) > 110 or _TERMINAL.search(line[-8:]) or _MARKER.match(line) or _FACT.match(line):
            return False
        if self.docstrings:
            # In docstrings a line without a full stop is more often a summary than a heading.
            short = len(line.split()) < 4 and bool(self.page.sentences) and line[0].isupper()
            return short or bool(_SIGNATURE.match(line))
        return len(line.split()) <= 14 and (not line[0].islower() or "(" in line)

    def _code(self, lines: list[str]) -> None:
        """Program text belongs to the sentence before it; empty lines do not end it."""
        last = self.page.sentences[-1] if self.page.sentences else None
        if last and last.paragraph == self.paragraph - 1 - self.code_blocks:
            self.code_lines += ["", *lines] if self.code_blocks else lines
            self.code_blocks += 1
            short = len(self.code_lines) <= _MAX_CODE_LINES
            last.code = dedent("\n".join(self.code_lines).expandtabs(4)).strip("\n") if short else ""

    def _prose(self, lines: list[str]) -> None:
        listed = False
        for line in _unwrapped(lines):
            marker = _MARKER.match(line)
            if marker:
                listed = True
                number = marker[0].strip() if marker[0].strip()[:-1].isdigit() else ""
                self._add([line[marker.end() :].strip()], "item", self.intro, number)
            elif _FIELD.match(line) and (len(lines) > 1 or _FACT.match(line)) and len(line) < 200:
                self._add([line.strip()], "item", None)
            else:
                self._add(split_sentences(line.strip()), "prose", None)
                self.intro = len(self.page.sentences) - 1 if line.rstrip().endswith(":") else None
        if listed and self.intro is not None and not _MARKER.match(lines[-1]):
            self.intro = None

    def _add(self, texts: list[str], kind: SentenceKind, intro: int | None, number: str = "") -> None:
        for place, text in enumerate(texts):
            if len(text) > 1:
                self.page.sentences.append(
                    Sentence(
                        text,
                        kind,
                        self.paragraph,
                        self.section,
                        self.heading,
                        _stems(text),
                        intro,
                        place == 0,
                        marker=number,
                    )
                )


def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(text))


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Lines that are broken only for the eye are joined again."""
    held: list[str] = []
    for line in lines:
        broken = held and not _TERMINAL.search(held[-1][-8:]) and line.lstrip()[:1].islower()
        if broken and not _MARKER.match(line):
            held.append(line.strip())
            continue
        if held:
            yield " ".join(held)
        held = [line.rstrip()]
    if held:
        yield " ".join(held)
