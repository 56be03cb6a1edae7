"""Markdown, the form into which every document is read: its blocks, and the chunks that are indexed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

BlockKind = Literal["heading", "text", "item", "code"]
_KINDS: dict[str, BlockKind] = {"heading_open": "heading", "fence": "code", "code_block": "code"}
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^(title|version|date|updated|last[_-]updated|last[_-]modified)[ \t]*:[ \t]*(.+)$", re.M | re.I)
_CONTAINER = re.compile(r"(?:!!!|\?\?\?\+?|===|:::+)[ \t]*\{?([\w-]*)\}?(?:[ \t]+(.*))?$")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)|\[[^\[\]]*\])|[ \t]*\{[#.:][^{}\n]*\}$", re.M)
_NOISE = re.compile(r"<!--|</?(?:div|span|a|img|br|p|center|details|summary|figure)\b|\[[^\]]+\]: |\([\w.-]+\)=$")
_ROLE = re.compile(r"\{[\w:+-]+\}(?:`([^`<>]+?)\s*<[^`<>]*>`|(`)[!~]?)")  # of MyST, with a label or without
_DIRECTIVE = re.compile(r"\{([\w:+-]+)\}[ \t]*(.*)")
_OPTIONS = re.compile(r"\A(?:[ \t]*:[\w-]+:.*\n)+\s*")
_DEEPEST = 5  # directives inside directives
CODE = re.compile(r"(?:\w*code\S*|doctest|eval-rst|graphviz|ipython|math|mermaid|productionlist|prompt|testoutput)$")
SILENT = re.compile(r"(?:auto\w+|click:\w+|contents|highlight|index|meta|plot|testsetup|toctree|\w+author|\w*module)$")
VERSIONS = {"versionadded": "Added in version", "versionchanged": "Changed in version",
            "deprecated": "Deprecated since version", "versionremoved": "Removed in version"}  # fmt: skip
LONGEST = 1_800
_ENOUGH = 900
_LONGEST_HEADING = 300
_CHANGES = re.compile(r"(?:\b|_)(?:change(?:s|log)|release(?:s|notes)?|announce\w*|news|what.?s[-_ ]?new)(?:\b|_)")
_RELEASE = re.compile(
    r"(?:[^\W\d][\w.-]* ){0,3}v?(\d+(?:\.\d+)+\w*)(?:[^\w.]+(?:\W*\d[\d. -]*\d|\w*released?.*|.*\b\d{4}\b.*))?\W*$",
    re.I,
)
_DATE = re.compile(r"\b(?:\d{4}-\d\d-\d\d|[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}|\d{1,2} [A-Z][a-z]{2,8}\.? \d{4})\b")

_parser = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table").disable("inline")


class Document(NamedTuple):
    """A document as its reader returns it. All fields but the text may be empty."""

    text: str  # Markdown
    title: str = ""
    version: str = ""  # that the document states for itself, as in its front matter
    date: str = ""


class Block(NamedTuple):
    """A heading, paragraph, list item or code block."""

    kind: BlockKind
    text: str  # Markdown; a heading without its `#`
    level: int = 0  # the depth of a heading, from 1


class Chunk(NamedTuple):
    """A few paragraphs under one heading."""

    headings: tuple[str, ...]  # outermost first
    body: str  # Markdown, without the headings
    version: str  # from the nearest heading that names a release, else from the document
    date: str
    is_change: bool  # whether it is an entry of a changelog, release notes or the like


class ReadDocument(NamedTuple):
    """A document of a collection, ready for the index."""

    title: str
    chunks: Sequence[Chunk]
    problem: str = ""  # the reason why the document was not read in full


def read_markdown(text: str) -> Document:
    """Read CommonMark with tables, front matter and the admonitions of MkDocs and MyST."""
    fields: dict[str, str] = {}
    if front := _FRONT_MATTER.match(text):
        fields = {name.lower(): value.strip().strip("\"'") for name, value in _FIELD.findall(front[1])}
        text = text[front.end() :]
    title, version = fields.pop("title", ""), fields.pop("version", "")
    return Document("\n".join(_flattened(text)), title, version, next(iter(fields.values()), ""))


def _flattened(text: str) -> Iterator[str]:
    """Yield the lines of *text* with the content of `!!! note`, `=== "Tab"` and `:::note` at the left margin.

    CommonMark takes such indented content for program text.
    """
    margin, fence = 0, ""
    for line in text.split("\n"):
        start = line.lstrip(" ")
        if start and len(line) - len(start) < margin:
            margin = 0
        start = line[margin:].lstrip(" ")
        if start.startswith(("```", "~~~")):
            fence = "" if start[:3] == fence else fence or start[:3]
        container = None if fence else _CONTAINER.match(start)
        if label := container and (container[2] or container[1].capitalize()).strip("\"' "):
            yield from ("", f"**{label}**", "")
            margin = 0 if start.startswith(":") else len(line) - len(start) + 4
        elif not container:
            yield line[margin:]


def blocks(text: str, depth: int = 0) -> Iterator[Block]:
    """Divide Markdown into its blocks. Links keep only their text; comments and lone HTML tags disappear."""
    lines = text.split("\n")
    for token in _parser.parse(text):
        item = token.type == "list_item_open" and token.level == 1
        if token.map is None or (token.level and not item) or token.type.endswith("list_open"):
            continue
        source = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n").rstrip()
        kind: BlockKind = "item" if item else _KINDS.get(token.type, "text")
        if kind == "heading":
            title = _LINK.sub(r"\1", source.strip("# \t").split("\n")[0].rstrip("¶"))
            yield Block("heading", " ".join(title.split()), int(token.tag[1]))
        elif kind == "code":
            yield from _code(token, source, depth)
        elif (shown := _LINK.sub(r"\1", _ROLE.sub(r"\1\2", source)).strip()) and not _NOISE.match(shown):
            yield Block(kind, shown)


def _code(token: Token, source: str, depth: int) -> Iterator[Block]:
    """Yield a block of program text, or the blocks inside a directive of MyST."""
    directive = _DIRECTIVE.match(token.info)
    content = _OPTIONS.sub("", token.content) if directive else token.content
    if directive is None or CODE.match(directive[1]) or depth == _DEEPEST:
        if content.strip():
            yield Block("code", f"```\n{content.rstrip()}\n```" if directive or token.type != "fence" else source)
    elif not SILENT.match(directive[1]):
        label = f"{VERSIONS.get(directive[1], '')} {directive[2]}".strip() or directive[1].capitalize()
        yield Block("text", f"**{label}**")
        yield from blocks(content, depth + 1)


def join(parts: Sequence[Block]) -> str:
    """Return the Markdown of *parts*, which are no headings: list items on consecutive lines, others apart."""
    text = parts[0].text if parts else ""
    for before, part in pairwise(parts):
        text += ("\n" if before.kind == part.kind == "item" else "\n\n") + part.text
    return text


def chunks(document: Document, location: str) -> Iterator[Chunk]:
    """Divide *document* into chunks, in order. A paragraph that ends in a colon stays with what follows it."""
    found = [part for block in blocks(document.text) for part in _cut(block)]
    releases = sum(block.kind == "heading" and bool(_RELEASE.match(block.text)) for block in found)
    name = re.sub(r"\.\w+$", "", location).lower()
    is_changelog = releases > 2 or bool(_CHANGES.search(name) or _CHANGES.search(document.title.lower()))
    path: list[Block] = []
    parts: list[Block] = []
    released = ""
    for block in [*found, Block("heading", "", 1)]:  # the last heading ends the last chunk
        size = sum(len(part.text) + 2 for part in parts)
        introduced = block.kind in ("code", "item") and parts and parts[-1].text.endswith(":")
        full = size >= _ENOUGH and size + len(block.text) > LONGEST and not introduced
        if parts and (full or block.kind == "heading"):
            headings = tuple(heading.text for heading in path)
            versions = [match[1] for heading in reversed(headings) if (match := _RELEASE.match(heading))]
            dates = [match[0] for heading in reversed(headings) if (match := _DATE.search(heading))]
            if versions and not released and len(parts[0].text) < 120 and (stated := _DATE.search(parts[0].text)):
                released = stated[0]  # "Released 2024-05-01" below the heading of a release
            version, date = [*versions, document.version][0], [*dates, released or document.date][0]
            yield Chunk(headings, join(parts), version, date, is_changelog or bool(versions))
            parts = []
        if block.kind == "heading":
            heading = block._replace(text=block.text[:_LONGEST_HEADING])  # every chunk below repeats it
            path, released = [*(above for above in path if above.level < block.level), heading], ""
        else:
            parts.append(block)


def _cut(block: Block) -> Iterator[Block]:
    """Yield *block*, cut between lines or sentences where it is much longer than a chunk."""
    text, fence = block.text, block.text[: len(block.text) - len(block.text.lstrip("`~"))]
    while len(text) > 2 * LONGEST:
        ends = (text.rfind(end, LONGEST // 2, LONGEST) + len(end) for end in ("\n", ". ", " "))
        at = next((end for end in ends if end > LONGEST // 2), LONGEST)
        head, text = text[:at].rstrip(), text[at:].lstrip("\n")
        if block.kind == "code":
            head, text = f"{head}\n{fence}", f"{fence}\n{text}"
        yield Block(block.kind, head)
    yield Block(block.kind, text, block.level)
