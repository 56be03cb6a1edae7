"""Parsing of one file by its suffix, in a worker process: documents come from anyone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...errors import CorpusError, MissingExtraError, WorkerError
from ..html import read_html, require_html_reader
from ..workers import run_in_worker
from .chunks import Chunk, ReadDocument, divided
from .markdown import Document, read_markdown
from .rst import read_rst

_IS_RST = re.compile(r"^[ \t]*\.\. (?:[\w:-]+::|_[^:\n]+:)|(?<!\w):[a-z][\w:-]*:`[^`\n]", re.MULTILINE)
READERS: dict[str, Callable[[str], Document]] = {
    ".md": read_markdown, ".markdown": read_markdown, ".rst": read_rst,
    ".txt": lambda text: (read_rst if _IS_RST.search(text) else read_markdown)(text),
    ".html": lambda text: Document(*read_html(text)), ".htm": lambda text: Document(*read_html(text)),
}  # fmt: skip
_LONGEST_TITLE = 300


def read_in_worker(suffix: str, text: str, location: str) -> ReadDocument:
    """Return the document in *text*, or an empty one with the problem if its reader fails or exceeds a limit.

    Raises `MissingExtraError` for HTML if its reader is not installed, `CorpusError` if there can be no worker.
    """
    if suffix.startswith(".htm"):
        require_html_reader("documents")
    try:
        title, found, problem = run_in_worker(parse, suffix, text, location)
        chunks = [
            Chunk(tuple(map(_text, headings)), _text(body), _text(version), _text(date), bool(is_change))
            for headings, body, version, date, is_change in found
        ]
        return ReadDocument(_text(title), chunks, _text(problem))
    except WorkerError as error:
        if error.raised == "MissingExtraError":
            raise MissingExtraError(error.detail) from None
        if error.raised == "OSError":
            raise CorpusError(f"documents cannot be read: {error.detail}") from None
        return ReadDocument("", (), f"skipped: {error}")
    except (TypeError, ValueError):  # hostile input has taken the worker over
        return ReadDocument("", (), "skipped: its reader returned no valid document")


def parse(suffix: str, text: str, location: str) -> list[Any]:
    """Return title, chunks and problem as JSON values. Called in a worker.

    Markup that its reader cannot parse is read as Markdown.
    """
    problem = ""
    try:
        document = READERS[suffix](text)
    except (MissingExtraError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a reader may fail in any way
        problem = f"read as plain text: {type(error).__name__}"
        document = Document(re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE))
    heading = re.search(r"^#{1,6} (.+)$", document.text[:20_000], re.MULTILINE)
    name = location.rpartition("/")[2].rpartition(".")[0]
    title = one_line(document.title or (heading[1] if heading else name))[:_LONGEST_TITLE]
    read = divided(document._replace(title=title), location)
    return [read.title, read.chunks, problem]


def one_line(text: str) -> str:
    """Return *text* without control characters: a line break in a file's name could forge a source of a report."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _text(value: object) -> str:
    """Return *value* as text that can be stored, without lone surrogates."""
    if not isinstance(value, str):
        raise TypeError("no text")
    return value.encode(errors="replace").decode()
