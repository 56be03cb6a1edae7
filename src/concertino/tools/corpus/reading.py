"""Reading one file: from its bytes to a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from . import markdown, rst
from .blocks import Block, first_heading
from .html import read_html
from .plain import parse as parse_plain
from .prose import Inline

SUFFIXES = (".md", ".markdown", ".rst", ".txt", ".html", ".htm")
MAX_BYTES = 8_000_000
"""Of a longer file, this much is read."""

_HEADER = re.compile(r"([A-Z][A-Za-z-]{1,30}):(?:[ \t]+(.*))?$")
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_BINARY_SHARE = 0.1


class UnreadableError(Exception):
    """The file holds no text."""


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, or what its byte order mark says; what does not decode is replaced.

    Raises `UnreadableError` for bytes that are no text.
    """
    encoding = next((name for bom, name in _BOMS.items() if data.startswith(bom)), "utf-8")
    head = data[:4096]
    control = sum(1 for byte in head if byte < 32 and byte not in b"\t\n\r\f\x1b")
    if encoding != "utf-16" and (b"\x00" in head or control > _BINARY_SHARE * len(head)):
        raise UnreadableError("binary")
    return data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")


def read_text(path: Path) -> tuple[str, int]:
    """The text of a file up to the limit, and the file's whole size. Raises OSError and `UnreadableError`."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES)
    size = path.stat().st_size
    return decode(data), size


def _header_lines(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Mail-style header fields at the head of a document, continuation lines joined."""
    fields: list[tuple[str, str]] = []
    for line in lines:
        field = _HEADER.match(line)
        if field:
            fields.append((field[1], (field[2] or "").strip()))
        elif fields and line[:1] in (" ", "\t") and line.strip():
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}".strip())
        else:
            break
    return fields


def _header(lines: Sequence[str], inline: Inline) -> tuple[str, list[Block], int]:
    """The title that a header gives, the header as a block of short lines, and the number of lines it takes."""
    fields = [(name, inline(value)) for name, value in _header_lines(lines)]
    values = {name.lower(): value for name, value in fields}
    title = values.get("title", "")
    if not title:
        return "", [], 0
    # A number under a series' name, as in "PEP: 8", is how people ask for the document.
    name, value = fields[0]
    if name != "Title" and value.isdigit():
        title = f"{name} {value}: {title}"
    length = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    text = "\n".join(f"{name}: {value}" for name, value in fields if value)
    return title, [Block("prose", text)], length


_PARSERS: dict[str, Callable[[Sequence[str]], list[Block]]] = {
    ".md": markdown.parse,
    ".markdown": markdown.parse,
    ".rst": rst.parse,
    ".txt": parse_plain,
}


def read_blocks(text: str, suffix: str) -> tuple[str, list[Block]]:
    """The title (empty where the text has none) and the blocks of a text in the format of *suffix*.

    Raises `MissingExtraError` for HTML where its reader is not installed.
    """
    if suffix in (".html", ".htm"):
        page = read_html(text)
        return page.title, page.blocks
    lines = text.expandtabs(8).split("\n")
    title, head, length = _header(lines, rst.clean_inline if suffix == ".rst" else str)
    if not title and suffix in (".md", ".markdown"):
        title, length = markdown.front_matter(lines)
    blocks = _PARSERS[suffix](lines[length:])
    return title or first_heading(blocks), [*head, *blocks]


def read_document_text(path: Path) -> tuple[str, list[Block], int]:
    """Title, blocks and whole size of a file.

    Raises OSError, `UnreadableError`, and `MissingExtraError` (see `read_blocks`).
    """
    text, size = read_text(path)
    title, blocks = read_blocks(text, path.suffix.lower())
    return title, blocks, size
