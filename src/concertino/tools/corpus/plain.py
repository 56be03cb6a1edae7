"""Text without markup: `.txt` files and docstrings."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Block
from .headings import heading_at, is_underline
from .prose import Inline, plain_blocks


def parse(lines: Sequence[str], inline: Inline = str) -> list[Block]:
    """The blocks of a plain text; underlined lines are headings."""
    blocks: list[Block] = []
    pending: list[str] = []
    index = 0
    while index < len(lines):
        heading = heading_at(lines, index)
        if heading:
            blocks += [*plain_blocks(pending, inline), Block("heading", inline(heading[0]))]
            pending = []
        elif not is_underline(lines[index]) or ">>>" in lines[index]:
            pending.append(lines[index])
        index += heading[1] if heading else 1
    return blocks + list(plain_blocks(pending, inline))
