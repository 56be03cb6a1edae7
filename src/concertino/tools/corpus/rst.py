"""reStructuredText, made readable: markup noise out, paragraphs joined, headings and code recognised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent

from .blocks import Block
from .headings import heading_at, is_underline
from .prose import MAX_DEPTH, MAX_INLINE, code_block, indent_of, looks_like_table, plain_blocks, prose_block

_CODE_DIRECTIVES = {
    "code-block",
    "sourcecode",
    "code",
    "parsed-literal",
    "doctest",
    "testcode",
    "productionlist",
}
_DROPPED = {
    "contents", "toctree", "index", "raw", "image", "include", "literalinclude", "highlight", "default-role",
    "sectnum", "module", "currentmodule", "moduleauthor", "sectionauthor", "role", "meta", "replace",
    "unicode", "canonical-doc", "canonical-pypa-spec", "canonical-typing-spec", "canonical-topic",
}  # fmt: skip
_NAMED = {"note", "warning", "important", "caution", "tip", "hint", "attention", "danger", "error", "seealso"}
_SIGNATURES = re.compile(
    r"(?:\w+:)?(?:c?function|(?:async|abstract|class|static)?method|class|exception|data|attribute)$"
)
_DIRECTIVE = re.compile(r"\.\. +([\w:+.-]+?) ?::(?:\s+(.*))?$")
_NOTE = re.compile(r"\.\. +\[([#*\w.-]+)\]\s*(.*)$")
_FIELD = re.compile(r":[\w -]+:(?:\s.*)?$")

_ROLE = re.compile(r":(?:[\w+-]+:)*([\w+-]+):`([^`]+)`")
_LABELLED = re.compile(r"^(.*?)\s*<[^<>]+>$", re.DOTALL)
_LITERAL = re.compile(r"``(.+?)``", re.DOTALL)
_REFERENCE = re.compile(r"`([^`]+)`_{0,2}")
_EMPHASIS = re.compile(r"(?<![\w*\\])(\*{1,2})(?=[^\s*])(.+?)(?<=[^\s*\\])\1(?![\w*])")
_FOOTNOTE = re.compile(r"\[([#*\w.-]+)\]_(?!\w)")
_NUMBERED_ROLES = {"pep": "PEP", "rfc": "RFC"}


def _role(match: re.Match[str]) -> str:
    role, text = match.groups()
    labelled = _LABELLED.match(text)
    if labelled and labelled[1]:
        return labelled[1]
    if role in _NUMBERED_ROLES:
        return f"{_NUMBERED_ROLES[role]} {text.partition('#')[0]}"
    return text.lstrip("!").rpartition(".")[2] if text.startswith("~") else text.lstrip("!")


def _reference(match: re.Match[str]) -> str:
    labelled = _LABELLED.match(match[1])
    return labelled[1] if labelled and labelled[1] else match[1].strip("<>")


def clean_inline(text: str) -> str:
    """The words of a paragraph without roles, link targets, backticks and emphasis."""
    if len(text) > MAX_INLINE:
        return text.strip()
    literals: list[str] = []

    def keep(match: re.Match[str]) -> str:
        literals.append(match[1])
        return f"\x00{len(literals) - 1}\x01"

    text = _LITERAL.sub(keep, text.replace("\x00", ""))
    text = _REFERENCE.sub(_reference, _ROLE.sub(_role, text))
    text = _FOOTNOTE.sub(r"[\1]", _EMPHASIS.sub(r"\2", text))
    text = text.replace("\\ ", "").replace("\\*", "*").replace("\\`", "`").replace("\\_", "_")
    return re.sub(r"\x00(\d+)\x01", lambda match: literals[int(match[1])], text).strip()


def _region(lines: Sequence[str], start: int, indent: int) -> int:
    """The end of the lines from *start* that are empty or indented by more than *indent*."""
    end = start
    for index in range(start, len(lines)):
        if lines[index].strip():
            if indent_of(lines[index]) <= indent:
                break
            end = index + 1
    return end


def _dedented(lines: Sequence[str]) -> list[str]:
    return dedent("\n".join(lines)).strip("\n").split("\n")


def _body(lines: Sequence[str]) -> list[str]:
    """What a directive holds, without its options; the empty line that sets it off from the argument is kept."""
    body = dedent("\n".join(lines)).rstrip().split("\n")
    while len(body) > 1 and _FIELD.match(body[0]):
        body.pop(0)
    return [""] if _FIELD.match(body[0]) else body


def _directive(name: str, argument: str, body: list[str], depth: int) -> Iterator[Block]:
    if name in _DROPPED:
        return
    if name in _CODE_DIRECTIVES:
        if any(line.strip() for line in body):
            yield code_block(body)
    elif _SIGNATURES.match(name):
        yield Block("heading", clean_inline(argument))
        yield from parse(body, depth + 1)
    elif name in ("list-table", "csv-table", "figure"):
        yield from parse([*([argument] if argument and name != "figure" else []), "", *body], depth + 1)
    else:
        label = name.capitalize() + ": " if name in _NAMED else f"{name} " if name.startswith("version") else ""
        # A label waits for the text that may stand below it; an argument by itself is followed by an empty line.
        first = f"{label}{argument}".strip()
        yield from parse([first, *(body[1:] if label and not argument and not body[0] else body)], depth + 1)


def _explicit(lines: Sequence[str], depth: int) -> Iterator[Block]:
    """A directive, a footnote, or (yielding nothing) a comment or a link target."""
    directive, note = _DIRECTIVE.match(lines[0]), _NOTE.match(lines[0])
    if directive:
        yield from _directive(directive[1], directive[2] or "", _body(lines[1:]), depth)
    elif note:
        rest = _dedented(lines[1:]) if len(lines) > 1 else []
        first, *others = parse([note[2], *rest], depth + 1) or [Block("prose", "")]
        yield Block("prose", f"[{note[1]}] {first.text}".strip())
        yield from others


def _paragraph_end(lines: Sequence[str], start: int) -> int:
    end = start
    while end < len(lines) and lines[end].strip():
        if end > start and (lines[end].startswith(".. ") or heading_at(lines, end)):
            break
        end += 1
    return end


def _simple_table_end(lines: Sequence[str], start: int) -> int:
    """Where a table between lines of `===` ends: its rows may hold empty lines."""
    borders = [i for i in range(start, min(len(lines), start + 400)) if re.match(r"\s*=+( +=+)+\s*$", lines[i])]
    run = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    return max(run, borders[2] + 1 if len(borders) > 2 else 0)


def _paragraph(lines: Sequence[str], start: int, blocks: list[Block]) -> int:
    """Append the paragraph at *start*, with the literal block that it may announce; return where it ends."""
    end = _paragraph_end(lines, start)
    group = list(lines[start:end])
    if group[0].lstrip().startswith(">>>"):
        blocks.append(code_block(group))
        return end
    if looks_like_table(group):
        end = _simple_table_end(lines, start) if group[0].lstrip().startswith("=") else end
        blocks.append(code_block(lines[start:end]))
        return end
    announces = group[-1].rstrip().endswith("::")
    if announces:
        group[-1] = re.sub(r"\s*::$", lambda m: ":" if m[0] == "::" else "", group[-1].rstrip())
    block = prose_block([line for line in group if line.strip()] or [""], clean_inline)
    if block.text and block.text != ":":
        blocks.append(block)
    if not announces:
        return end
    literal_end = _region(lines, end, indent_of(lines[start]))
    if literal_end > end:
        blocks.append(code_block(lines[end:literal_end]))
    return max(end, literal_end)


def parse(lines: Sequence[str], depth: int = 0) -> list[Block]:
    """The blocks of a reStructuredText body."""
    if depth > MAX_DEPTH:
        return list(plain_blocks(lines))
    blocks: list[Block] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        heading = heading_at(lines, index)
        if heading:
            blocks.append(Block("heading", clean_inline(heading[0])))
            index += heading[1]
        elif not line.strip() or is_underline(line):
            index += 1
        elif line.startswith((".. ", "__ ")) or line.rstrip() == "..":
            end = _region(lines, index + 1, 0)
            blocks += _explicit(lines[index:end], depth) if line.startswith("..") else []
            index = end
        elif line[0].isspace():
            end = _region(lines, index, 0)
            blocks += parse(_dedented(lines[index:end]), depth + 1)
            index = end
        else:
            index = _paragraph(lines, index, blocks)
    return blocks
