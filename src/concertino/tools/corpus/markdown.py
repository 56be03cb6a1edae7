"""Markdown, made readable: links and emphasis become words, paragraphs are joined, code stays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .blocks import Block
from .prose import MAX_DEPTH, MAX_INLINE, code_block, indent_of, looks_like_table, plain_blocks, prose_block

_HEADING = re.compile(r" {0,3}#{1,6}(?:\s+(.*?))?\s*#*\s*$")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})\s*$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")
_DEFINITION = re.compile(r" {0,3}\[[^\]]+\]:\s+\S+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][\w-]*(?:\s[^<>]*)?/?>")
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)\s]*(?:\s[^)]*)?\)")
_LINK = re.compile(r"\[([^\[\]]+)\](?:\((?:[^()\s]|\([^()]*\))*(?:\s+[\"'(][^)]*)?\)|\[[^\]]*\])")
_AUTOLINK = re.compile(r"<((?:https?|mailto):[^>\s]+)>")
_CODE_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*\\])(\*{1,3})(?=[^\s*])(.+?)(?<=[^\s*\\])\1(?![\w*])")
_UNDERSCORED = re.compile(r"(?<![\w\\])(_{1,2})(?=[^\s_])(.+?)(?<=[^\s_\\])\1(?!\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+\S")


def clean_inline(text: str) -> str:
    """The words of a paragraph without link targets, backticks, tags and emphasis."""
    if len(text) > MAX_INLINE:
        return text.strip()
    spans: list[str] = []

    def keep(match: re.Match[str]) -> str:
        spans.append(match[2].strip())
        return f"\x00{len(spans) - 1}\x01"

    text = _CODE_SPAN.sub(keep, text.replace("\x00", ""))
    text = _TAG.sub("", _AUTOLINK.sub(r"\1", text))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _UNDERSCORED.sub(r"\2", _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", text)))
    text = _ESCAPE.sub(r"\1", text)
    return re.sub(r"\x00(\d+)\x01", lambda match: spans[int(match[1])], text).strip()


def front_matter(lines: Sequence[str]) -> tuple[str, int]:
    """The title in a document's YAML head, if there is one, and the number of lines that the head takes."""
    if not lines or lines[0].strip() != "---":
        return "", 0
    end = next((i for i, line in enumerate(lines[1:60], 1) if line.strip() in ("---", "...")), 0)
    found = (re.match(r"title:\s*[\"']?(.+?)[\"']?\s*$", line) for line in lines[1:end])
    return next((match[1] for match in found if match), ""), end + 1 if end else 0


def _fence_end(lines: Sequence[str], start: int, fence: str) -> int:
    closing = re.compile(rf"\s*{re.escape(fence[0])}{{{len(fence)},}}\s*$")
    return next((i for i in range(start, len(lines)) if closing.match(lines[i])), len(lines))


def _interrupts(lines: Sequence[str], index: int) -> bool:
    """Whether a line ends the paragraph before it without an empty line between them."""
    line = lines[index]
    return bool(_HEADING.match(line) or _FENCE.match(line) or (_QUOTE.match(line) and line.strip() != ">"))


def _paragraph(lines: Sequence[str], start: int, blocks: list[Block]) -> int:
    end = start + 1
    while end < len(lines) and lines[end].strip() and not _interrupts(lines, end):
        if _SETEXT.match(lines[end]) and not _ITEM.match(lines[start]):
            blocks.append(Block("heading", clean_inline(" ".join(line.strip() for line in lines[start:end]))))
            return end + 1
        end += 1
    group = [line for line in lines[start:end] if not _DEFINITION.match(line)]
    if looks_like_table(group):
        blocks.append(code_block([clean_inline(line) for line in group]))
    elif group and indent_of(group[0]) >= 4 and not _ITEM.match(group[0]) and _after_prose(blocks):
        blocks.append(code_block(group))
    elif group and (block := prose_block(group, clean_inline)).text:
        blocks.append(block)
    return end


def _after_prose(blocks: Sequence[Block]) -> bool:
    """Indented lines are code, except where they continue a list."""
    return not blocks or blocks[-1].kind != "prose" or not _ITEM.match(blocks[-1].text.rpartition("\n")[2])


def _quote_end(lines: Sequence[str], start: int) -> int:
    return next((i for i in range(start, len(lines)) if not _QUOTE.match(lines[i])), len(lines))


def parse(lines: Sequence[str]) -> list[Block]:
    """The blocks of a Markdown body."""
    lines = _COMMENT.sub("", "\n".join(lines)).split("\n")
    return _parse(lines)


def _parse(lines: Sequence[str], depth: int = 0) -> list[Block]:
    if depth > MAX_DEPTH:
        return list(plain_blocks(lines))
    blocks: list[Block] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip() or _RULE.match(line):
            index += 1
        elif fence := _FENCE.match(line):
            end = _fence_end(lines, index + 1, fence[1])
            if any(inner.strip() for inner in lines[index + 1 : end]):
                blocks.append(code_block(lines[index + 1 : end]))
            index = end + 1
        elif heading := _HEADING.match(line):
            if title := clean_inline(heading[1] or ""):
                blocks.append(Block("heading", title))
            index += 1
        elif _QUOTE.match(line):
            end = _quote_end(lines, index)
            blocks += _parse([_QUOTE.sub("", quoted, count=1) for quoted in lines[index:end]], depth + 1)
            index = end
        else:
            index = _paragraph(lines, index, blocks)
    return blocks
