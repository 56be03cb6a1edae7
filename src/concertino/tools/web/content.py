"""Conversion of a response body to plain text."""

from __future__ import annotations

import codecs
import re
from base64 import b64decode, b64encode
from email.message import Message

from ...errors import LibraryError, WorkerError
from ...records import record
from ...text import marked_charset
from ..html import read_html, require_html_reader
from ..workers import in_worker

_HTML = {"text/html", "application/xhtml+xml"}
_TEXT = {"text/plain", "text/markdown", "text/x-markdown", "text/x-rst", "text/csv", "application/json"}
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"^\s*<\?xml[^>]+encoding\s*=\s*[\"']([\w:.-]+)", re.IGNORECASE)
_LONGEST_TITLE = 300


@record(kw_only=True)
class ResponseBody:
    """The body of a response and its declared content type."""

    data: bytes
    content_type: str


async def page_text(url: str, body: ResponseBody) -> tuple[str, str]:
    """Return the title, possibly empty, and the text. Raises `LibraryError` if the content is not text.

    A worker process reads the page, and ends when the caller is cancelled.
    """
    require_html_reader("web")
    try:
        title, text = await in_worker(read_page, url, b64encode(body.data).decode(), body.content_type)
    except WorkerError as error:
        if error.raised == "LibraryError":
            raise LibraryError(error.detail) from None
        raise LibraryError(f"web: {url} cannot be read ({error}); try another source") from error
    return str(title)[:_LONGEST_TITLE], str(text)


def read_page(url: str, data: str, content_type: str) -> tuple[str, str]:
    """Return the title and the text of a body in base64. Called in a worker."""
    return _read(url, ResponseBody(data=b64decode(data), content_type=content_type))


def _read(url: str, body: ResponseBody) -> tuple[str, str]:
    header = Message()
    header["content-type"] = body.content_type or "application/octet-stream"
    kind = header.get_content_type() if body.content_type else _sniff(body.data)
    charset = header.get_content_charset()
    if kind in _HTML:
        page = read_html(_decode(body.data, charset, markup=True), needed_extra="web")
        return page.title, page.text or "[This page has no text.]"
    if kind in _TEXT or kind.endswith("+json"):
        return "", _decode(body.data, charset, markup=False).strip() or "[This page has no text.]"
    raise LibraryError(
        f"web: {url} has the content type {kind or 'unknown'}, which is not text; look for an HTML version"
    )


def _sniff(data: bytes) -> str:
    """Guess the content type of a body without a declared one."""
    head = data[:1024].lstrip().lower()
    if b"\x00" in head:
        return "application/octet-stream"
    return "text/html" if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) else "text/plain"


def _decode(data: bytes, charset: str | None, *, markup: bool) -> str:
    """Decode by byte order mark, header, the page's own declaration or UTF-8, in that order; replace invalid bytes."""
    declared = (_META_CHARSET.search(data[:4096]) or _XML_CHARSET.search(data[:200])) if markup else None
    for name in (marked_charset(data), charset, declared[1].decode("ascii", "ignore") if declared else None):
        if name and (text := _try(data, name)) is not None:
            return text
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252" if markup else "utf-8", "replace")


def _try(data: bytes, name: str) -> str | None:
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    # Python's codecs include compression and encryption; accept text encodings only.
    if not getattr(codec, "_is_text_encoding", True):
        return None
    try:
        return data.decode(codec.name, "replace")
    except UnicodeError:  # the codec `idna` does not support `replace`
        return None
