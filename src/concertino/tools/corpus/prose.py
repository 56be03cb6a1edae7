"""From hard-wrapped lines to paragraphs.

Sentences are quoted from these texts word for word, so a sentence must not be cut by the line breaks of its
source; lists keep one item to the line, and code, doctests and tables stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from textwrap import dedent

from .blocks import Block, indented

MAX_INLINE = 10_000
"""Longer paragraphs keep their markup: on such lengths, unmatched markers would cost seconds."""

MAX_DEPTH = 20
"""Text indented or quoted more deeply than this is read without its markup."""
_WRAP_LIMIT = 120
_SHORT_LINE = 48
_BULLET = re.compile(r"(?:[-*+•‣]|\(?(?:\d{1,3}|#|[a-zA-Z])[.)])\s+(?=\S)")
_DEFINITION = re.compile(r"\S+(?: \S+){0,2}\s+--\s|:[^:\n]+:(?:\s|$)|@\w+\s")
_ARGUMENT = re.compile(r"\*{0,2}\w+(?:\s*\([^)]*\))?\s*:\s+\S")
_TABLE = re.compile(r"\s*(?:\+[-=+]{3,}|={2,}(?:\s+={2,})+\s*$|-{2,}(?:\s+-{2,})+\s*$|\|.*\|\s*$)")
_CODE = re.compile(
    r"^\s*(?:>>>|\.\.\.(?:\s|$)|(?:def|class|import|from|return|if|elif|else|for|while|with|try|except|raise|async"
    r"|await|yield)\b.*[:()\w]$|[#$%@<]\S*|\}|\])|[{};,(\[:\\]$|\s=\s|==|->|\w\(.*\)$"
)

Inline = Callable[[str], str]


def indent_of(line: str) -> int:
    """How many blanks a line begins with."""
    return len(line) - len(line.lstrip())


def groups(lines: Sequence[str]) -> Iterator[list[str]]:
    """Runs of lines without an empty one between them."""
    group: list[str] = []
    for line in lines:
        if line.strip():
            group.append(line)
        elif group:
            yield group
            group = []
    if group:
        yield group


def looks_like_code(lines: Sequence[str]) -> bool:
    """Whether at least half of the lines read like program text."""
    return 2 * sum(1 for line in lines if _CODE.search(line.rstrip())) >= len(lines)


def looks_like_table(lines: Sequence[str]) -> bool:
    """Whether a run of lines is a table drawn with characters."""
    return len(lines) > 1 and (bool(_TABLE.match(lines[0])) or bool(_TABLE.match(lines[1])))


def _starts_item(line: str, indent: int, previous: str, previous_indent: int) -> bool:
    """Whether *line* is an item or a line of its own rather than the rest of the paragraph before it."""
    body = line.lstrip()
    if _BULLET.match(body) or _DEFINITION.match(body) or indent < previous_indent:
        return True
    if indent == previous_indent:
        return bool(_ARGUMENT.match(body)) and indent > 0
    listed = _BULLET.match(previous) or _DEFINITION.match(previous) or _ARGUMENT.match(previous)
    return not listed


def _joined(parts: Sequence[str]) -> str:
    text = parts[0]
    for part in parts[1:]:
        hyphenated = text.endswith("-") and len(text) > 1 and text[-2].isalpha() and part[:1].isalpha()
        text += part if hyphenated else f" {part}"
    return text


def _unwrapped(lines: Sequence[str], *, guess: bool) -> list[str]:
    """The paragraph, or the items, that these lines make.

    With *guess*, lines that no one has wrapped (all very short, or one very long) stay apart: text without markup
    has no other way to say so.
    """
    longest = max(len(line) for line in lines)
    separate = guess and (longest > _WRAP_LIMIT or (len(lines) > 2 and longest < _SHORT_LINE))
    if separate and not any(_BULLET.match(line.lstrip()) for line in lines):
        return [line.strip() for line in lines]
    items: list[list[str]] = []
    start_indent = text_indent = 0
    for line in lines:
        indent = indent_of(line)
        continues = items and (indent == text_indent > start_indent and not _BULLET.match(line.lstrip()))
        if items and (continues or not _starts_item(line, indent, items[-1][0], start_indent)):
            items[-1].append(line.strip())
            text_indent = indent
        else:
            items.append([line.strip()])
            start_indent = text_indent = indent
    return [_joined(item) for item in items]


def prose_block(lines: Sequence[str], inline: Inline = str, *, guess: bool = False) -> Block:
    """One paragraph or list; *inline* cleans each item after its lines are joined."""
    cleaned = (re.sub(r"[ \t]{2,}", " ", inline(item)) for item in _unwrapped(lines, guess=guess))
    return Block("prose", "\n".join(item for item in cleaned if item))


def code_block(lines: Sequence[str]) -> Block:
    """Lines that keep their breaks and their shape."""
    body = dedent("\n".join(line.expandtabs(4).rstrip() for line in lines)).strip("\n")
    return Block("code", indented(body.split("\n")))


def plain_blocks(lines: Sequence[str], inline: Inline = str) -> Iterator[Block]:
    """Text without markup, as in docstrings and `.txt` files: paragraphs, lists, doctests and indented code."""
    base = min((indent_of(line) for line in lines if line.strip()), default=0)
    code: list[str] = []
    announced = False
    for group in groups(lines):
        inside = indent_of(group[0]) > base and not _BULLET.match(group[0].lstrip())
        is_code = group[0].lstrip().startswith(">>>") or looks_like_table(group)
        if is_code or (inside and (announced or looks_like_code(group))):
            code += ["", *group] if code else group
            continue
        announced = group[-1].rstrip().endswith("::")
        if announced:
            group[-1] = group[-1].rstrip().removesuffix(":")
        if code:
            yield code_block(code)
            code = []
        block = prose_block(group, inline, guess=True)
        if block.text:
            yield block
    if code:
        yield code_block(code)
