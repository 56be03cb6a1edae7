"""Quotes: sentences with their source, written down as an answer and read back from one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from .pages import ID
from .splitting import split_sentences

APART = " \u203a "
"""What stands between a source's title and a heading of it in a label."""
CLOSEST = "The sources searched do not answer this directly. These passages come closest:"
"""What stands before quotes that are about the subject and do not answer."""
_LABEL = re.compile(r"\*\*(.{1,240}?)\*\*(?::| —)\s*")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?=\S)")
_CITATIONS = re.compile(r"((?:[ \t]?\[s[0-9a-f]{10}\])+)")


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a source."""

    text: str
    ids: tuple[str, ...]
    label: str = ""
    """Where it stands: the source's title, and the heading if that says more."""
    kind: Literal["prose", "item"] = "prose"
    code: str = ""
    marker: str = ""
    """Its number, in a list that has numbers."""

    @property
    def cited(self) -> str:
        """The words and their citation."""
        return f"{self.text} " + "".join(f"[{id_}]" for id_ in self.ids)


def write(quotes: Sequence[Quote]) -> str:
    """Markdown: one paragraph for each place, its lists as lists, its program text fenced."""
    return "\n\n".join(
        _write_group(label, list(group)) for label, group in groupby(quotes, key=lambda quote: quote.label)
    )


def _write_group(label: str, quotes: Sequence[Quote]) -> str:
    blocks: list[str] = []
    name = f"**{label}**" if label else ""
    for kind, members in groupby(_with_breaks(quotes), key=lambda pair: pair[0]):
        group = [quote for _, quote in members]
        if kind[1] == "item":
            blocks.append("\n".join(f"{quote.marker or '-'} {quote.cited}" for quote in group))
        else:
            blocks.append(" ".join(quote.cited for quote in group))
        if group[-1].code:
            blocks.append(f"```\n{group[-1].code}\n```")
    if name:
        blocks = [f"{name}:", *blocks] if quotes[0].kind == "item" else [f"{name} — {blocks[0]}", *blocks[1:]]
    return "\n\n".join(blocks)


def _with_breaks(quotes: Iterable[Quote]) -> Iterable[tuple[tuple[int, str], Quote]]:
    """Number the blocks: program text ends one."""
    block = 0
    for quote in quotes:
        yield (block, quote.kind), quote
        block += bool(quote.code)


def read(answer: str) -> list[Quote]:
    """The cited sentences of an answer in Markdown, whoever wrote it; what has no citation is left out."""
    found: list[Quote] = []
    label = ""
    pieces = re.split(r"^```[^\n]*\n(.*?)\n?^```[ \t]*$", answer, flags=re.DOTALL | re.MULTILINE)
    for place, piece in enumerate(pieces):
        if place % 2:
            if found and not found[-1].code:
                found[-1] = replace(found[-1], code=piece)
            continue
        for block in re.split(r"\n[ \t]*\n", piece):
            for line in _lines(block):
                label = _read_line(line, label, found)
    return found


def _lines(block: str) -> list[str]:
    """A paragraph as one line, a list with one line for each item."""
    lines: list[list[str]] = []
    for line in block.split("\n"):
        if lines and line.strip() and not _ITEM.match(line) and not line.lstrip().startswith("#"):
            lines[-1].append(line.strip())
        elif line.strip():
            lines.append([line.rstrip()])
    return [" ".join(parts) for parts in lines]


def _read_line(line: str, label: str, found: list[Quote]) -> str:
    if line.lstrip().startswith("#"):
        return ""
    marker = _ITEM.match(line)
    line = line[marker.end() :] if marker else line
    if heading := _LABEL.match(line):
        label = heading[1]
        line = line[heading.end() :]
    pieces = _CITATIONS.split(line)
    for words, cited in zip(pieces[::2], pieces[1::2], strict=False):
        text = words.strip()
        ids = tuple(dict.fromkeys(ID.findall(cited)))
        if len(text) > 1:
            kept = text if marker else _last_unit(text)
            number = marker[0].strip() if marker and marker[0].strip()[0].isdigit() else ""
            found.append(Quote(kept, ids, label, "item" if marker else "prose", marker=number))
    return label


def _last_unit(text: str) -> str:
    """Several sentences before one citation stay together, unless they are too many to be one thought."""
    sentences = split_sentences(text)
    return text if len(sentences) <= 3 else " ".join(sentences[-3:])
