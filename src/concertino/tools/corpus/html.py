"""HTML, made readable: the main text of a page, found by trafilatura."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from ...errors import MissingExtraError
from . import markdown
from .blocks import Block, BlockKind, first_heading

if TYPE_CHECKING:
    from types import ModuleType

_UNSEEN = {"script", "style", "head", "template", "noscript", "svg", "iframe"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BREAKS = {
    "p",
    "div",
    "li",
    "ul",
    "ol",
    "tr",
    "table",
    "section",
    "article",
    "pre",
    "blockquote",
    "br",
    "dd",
    "dt",
    "dl",
}


@dataclass(frozen=True, slots=True)
class WebText:
    """What a page says: its title (may be empty) and its text in blocks (may be none)."""

    title: str
    blocks: list[Block]


def _trafilatura() -> ModuleType:
    """Raises `MissingExtraError` where the optional dependency is not installed."""
    try:
        import trafilatura  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "reading HTML needs trafilatura; install it with: pip install 'concertino[web]'"
        ) from error
    return trafilatura


class _Visible(HTMLParser):
    """All visible text of a page by paragraph: what is left when no main text was found."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.blocks: list[Block] = []
        self._words: list[str] = []
        self._unseen = 0
        self._in_title = False

    def end_block(self, kind: BlockKind = "prose") -> None:
        text = " ".join("".join(self._words).split())
        self._words.clear()
        if text:
            self.blocks.append(Block(kind, text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HEADINGS or tag in _BREAKS or tag == "body":
            self.end_block()
        if tag == "body":
            self._unseen = 0
        self._unseen += tag in _UNSEEN
        self._in_title = tag == "title" and not self.title

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        if tag in _HEADINGS or tag in _BREAKS:
            self.end_block("heading" if tag in _HEADINGS else "prose")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join(f"{self.title} {data}".split())
        elif not self._unseen:
            self._words.append(data)


def _visible(page: str) -> _Visible:
    parser = _Visible()
    parser.feed(page)
    parser.close()
    parser.end_block()
    return parser


def read_html(page: str) -> WebText:
    """The title and the main text of a page, whatever state its HTML is in.

    Raises `MissingExtraError` where trafilatura is not installed.
    """
    found = _trafilatura().extract(
        page, favor_recall=True, include_formatting=True, include_comments=False, output_format="markdown"
    )
    visible = _visible(page)
    blocks = markdown.parse(found.replace("¶", "").split("\n")) if found else visible.blocks
    return WebText(first_heading(blocks) or visible.title, blocks)
