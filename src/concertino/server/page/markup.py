"""Markdown as HTML that is safe to show: whatever a model or a tool writes, it is text with a fixed set of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from ...tools.library import SOURCE_ID

_LONGEST_HIGHLIGHTED = 50_000
"""Characters of a code block above which it is not highlighted."""
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_CITATION = re.compile(rf" ?\[((?:{SOURCE_ID}|S\d+)(?:\s*[,;]\s*(?:{SOURCE_ID}|S\d+))*)\]")
_SOURCES_HEADING = re.compile(r"\n#+ *Sources *\n((?:\n|- \[S\d+\].*(?:\n|\Z))+)\Z")
_LISTED_SOURCE = re.compile(r"- \[(S\d+)\] (.*) \u2014 (\S+)")
_BLOCK_END = re.compile(r"</(?:p|h\d|li|td|th|pre)>")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAGS = {
    *("a", "blockquote", "br", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"),
    *("s", "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_ATTRIBUTES = {
    "a": {"href", "target", "class", "title"},
    "blockquote": {"dir"},
    "code": {"class"},
    "div": {"class", "tabindex"},
    "ol": {"dir", "start"},
    "pre": {"tabindex", "data-language"},
    "span": {"class", "title"},
    "sup": {"class"},
    "table": {"dir"},
    "td": {"class"},
    "th": {"class"},
    "ul": {"dir"},
}
_CLEANER = nh3.Cleaner(tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"http", "https", "mailto"})
_FORMATTER = HtmlFormatter(nowrap=True, classprefix="hl-")


class Citations:
    """The sources that a text may cite, numbered by their first citation.

    *prefix* makes the targets of links unique; without it, there are no links. *known* is shared with other texts.
    """

    def __init__(self, prefix: str = "", known: dict[str, dict[str, str]] | None = None) -> None:
        self.prefix = prefix
        self.known: dict[str, dict[str, str]] = {} if known is None else known
        """Titles and locations by id."""
        self.numbers: dict[str, int] = {}

    def add(self, id: str, title: str, location: str) -> None:
        """Make a source known."""
        self.known.setdefault(id, {"title": " ".join(title.split()), "location": " ".join(location.split())})

    def number(self, id: str) -> int | None:
        """Return the number of a cited source; None if it is unknown."""
        return self.numbers.setdefault(id, len(self.numbers) + 1) if id in self.known else None

    @property
    def cited(self) -> list[dict[str, Any]]:
        """The cited sources in the order of their numbers."""
        return [{"number": number, **self.known[id]} for id, number in self.numbers.items()]


def markdown_html(text: str, citations: Citations | None = None) -> Markup:
    """Return Markdown as safe HTML: no scripts, styles, forms, images or relative links, and headings from level 3.

    With *citations*, `[s0123456789]` becomes a link to the source, or nothing if the source is unknown.
    """
    return _rendered(_PARSER.parse(text, {"citations": citations}))


class MarkdownBlocks:
    """A text that grows, as blocks of HTML. Only its end is parsed again, so that a long text costs no more."""

    def __init__(self, citations: Citations) -> None:
        self.text = ""
        self.blocks: list[Markup] = []
        self._citations = citations
        self._closed = 0
        """Characters of the text whose blocks are final."""
        self._final = 0
        """Number of final blocks."""

    def write(self, text: str) -> Iterator[int]:
        """Replace the text by a longer one. Yield the numbers of the blocks that are new or different."""
        if not text.startswith(self.text):
            self._closed = self._final = 0
            del self.blocks[:]
        self.text = text
        tail = text[self._closed :]
        starts = _line_starts(tail)
        groups = list(_top_level(_PARSER.parse(tail, {"citations": self._citations})))
        first = self._final
        for index, group in enumerate(groups, first):
            html = _rendered(group)
            if index == len(self.blocks):
                self.blocks.append(html)
                yield index
            elif self.blocks[index] != html:
                self.blocks[index] = html
                yield index
        for index in range(first + len(groups), len(self.blocks)):
            if self.blocks[index]:  # what began as a block has become a part of the one above
                self.blocks[index] = Markup()
                yield index
        begin = groups[-1][0].map if len(groups) > 1 else None
        if begin is not None and begin[0] + 1 < len(starts):  # the first line of the last block is complete
            self._final += len(groups) - 1
            self._closed += starts[begin[0]]


def well_formed(text: str) -> str:
    """Return the text with a replacement for each lone surrogate, which JSON can contain and UTF-8 cannot."""
    return _SURROGATE.sub("\ufffd", text)


def plain_text(text: str) -> str:
    """Return the text of Markdown in one line, without its marks and citations."""
    html = _BLOCK_END.sub(" ", _PARSER.render(text, {"citations": Citations()}))
    return " ".join(unescape(nh3.clean(well_formed(html), tags=set())).split())


def without_sources(text: str, citations: Citations) -> str:
    """Return a report without the list of sources at its end, which become known to *citations*."""
    found = _SOURCES_HEADING.search(text)
    if found is None:
        return text
    for id, title, location in _LISTED_SOURCE.findall(found[1]):
        citations.add(id, title, location)
    return text[: found.start()] + "\n"


def _line_starts(text: str) -> list[int]:
    """Return where each line of *text* begins."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


def _top_level(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield group
            group = []


def _rendered(tokens: Sequence[Token]) -> Markup:
    html = well_formed(_PARSER.renderer.render(tokens, _PARSER.options, {}))
    return Markup(_CLEANER.clean(html))  # noqa: S704 - just sanitized


# -- the parser --------------------------------------------------------------------------------------------------------


def _code(text: str, language: str, _: str = "") -> str:
    """Return highlighted code; escaped if its language is unknown."""
    if language and len(text) <= _LONGEST_HIGHLIGHTED:
        try:
            return str(highlight(text, get_lexer_by_name(language, stripnl=False), _FORMATTER))
        except ClassNotFound:
            pass
    return escape(text)


def _fence(tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    language = next(iter(token.info.split()), "")[:30]
    shown = f' data-language="{escape(language)}"' if language else ""
    return f'<pre tabindex="0"{shown}><code>{_code(token.content, language)}</code></pre>\n'


def _image(tokens: Sequence[Token], index: int, *_: Any) -> str:
    """Return an image as a link: loading it would tell a stranger who reads the page."""
    token = tokens[index]
    source, name = str(token.attrGet("src") or ""), token.content or "image"
    if not _SAFE_LINK.match(source):
        return escape(name)
    return f'<a href="{escape(source)}" target="_blank">{escape(name)}</a>'


def _link_open(tokens: Sequence[Token], index: int, *_: Any) -> str:
    return f'<a href="{escape(str(tokens[index].attrGet("href") or ""))}" target="_blank">'


def _table_open(*_: Any) -> str:
    return '<div class="table" tabindex="0"><table dir="auto">'


def _table_close(*_: Any) -> str:
    return "</table></div>"


def _heading(tokens: Sequence[Token], index: int, *_: Any) -> str:
    """Return a heading two levels lower: the page has the first two."""
    level = min(int(tokens[index].tag[1:]) + 2, 6)
    return f"<{'/' if tokens[index].nesting < 0 else ''}h{level}>"


def _direct(state: Any) -> None:
    """Let the text of a list or a quotation decide its direction; style sheets can do so for paragraphs only."""
    for token in state.tokens:
        if token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            token.attrSet("dir", "auto")


def _citation(tokens: Sequence[Token], index: int, *_: Any) -> str:
    return str(tokens[index].content)


def _cite(state: Any) -> None:
    """Replace citations in the text by links."""
    citations: Citations | None = state.env.get("citations")
    if citations is None:
        return
    for token in state.tokens:
        if token.children and "[" in token.content:
            token.children = [new for child in token.children for new in _with_citations(child, citations)]


def _with_citations(token: Token, citations: Citations) -> Iterator[Token]:
    if token.type != "text":
        yield token
        return
    end = 0
    for match in _CITATION.finditer(token.content):
        ids = dict.fromkeys(re.findall(rf"{SOURCE_ID}|S\d+", match[1]))
        if all(id.startswith("S") and id not in citations.known for id in ids):
            continue  # it only looks like a citation
        yield Token("text", "", 0, content=token.content[end : match.start()])
        links = [_citation_link(id, number, citations) for id in ids if (number := citations.number(id))]
        yield Token("citation", "", 0, content="".join(links))
        end = match.end()
    yield Token("text", "", 0, content=token.content[end:])


def _citation_link(id: str, number: int, citations: Citations) -> str:
    title = escape(citations.known[id]["title"])
    if not citations.prefix:
        return f'<sup><span class="cite" title="{title}">{number}</span></sup>'
    return f'<sup><a class="cite" href="#{escape(citations.prefix)}-{number}" title="{title}">{number}</a></sup>'


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: bool(_SAFE_LINK.match(url))  # type: ignore[method-assign]
    parser.core.ruler.push("cite", _cite)
    parser.core.ruler.push("direct", _direct)
    rules = {
        "fence": _fence,
        "code_block": _fence,
        "image": _image,
        "link_open": _link_open,
        "table_open": _table_open,
        "table_close": _table_close,
        "heading_open": _heading,
        "heading_close": _heading,
        "citation": _citation,
    }
    parser.renderer.rules.update(rules)  # type: ignore[attr-defined]
    return parser


_PARSER = _parser()
