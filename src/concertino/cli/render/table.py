"""Tables for people: columns as wide as their cells."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from .console import Line
from .format import one_line

_GAP = "  "


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), columns: int = 0
) -> list[Line]:
    """*rows* below *heads*; the columns named in *right* are set to the right. With *columns*, the last one is cut."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(width(cell) for cell in column) for column in zip(heads, *cells, strict=True)]
    if columns:
        before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        room = max(columns - before, 16)
        cells = [[*row[:-1], cut(row[-1], room)] for row in cells]

    def line(row: Sequence[str]) -> str:
        placed = [_placed(cell, w, head in right) for cell, w, head in zip(row, widths, heads, strict=True)]
        return _GAP.join(placed).rstrip()

    return [(line(heads), "bold"), *((line(row), "") for row in cells)]


def width(text: str) -> int:
    """How many columns *text* takes: wide characters take two, and those that join others none."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def cut(text: str, room: int) -> str:
    """*text* in *room* columns at most."""
    if width(text) <= room:
        return text
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > room - 1:
            return text[:place].rstrip() + "…"
    return text


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _placed(cell: str, columns: int, right: bool) -> str:
    space = " " * (columns - width(cell))
    return space + cell if right else cell + space
