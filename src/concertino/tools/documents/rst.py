"""reStructuredText, read by docutils and written as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from textwrap import dedent, indent
from typing import Any

from docutils import frontend, nodes, utils
from docutils.parsers import rst
from docutils.parsers.rst import states
from docutils.statemachine import StringList

from .markdown import CODE, SILENT, VERSIONS, Document

_SIGNATURE = re.compile(
    r"(?:\w+:)?(?:c?function|\w*method|class|exception|data|attribute|property|option|cmdoption|decorator\w*|confval|setting"
    r"|macro|type|enum|envvar|command|fixture|role|directive|describe|object)$"
)
_LABELLED = re.compile(r"^(.+?)\s*<[^<>]*>$", re.DOTALL)
_NAME = re.compile(r"[!~@.]*[\w.$-]*[\w)](?:\(\))?$")
_PROSE_ROLES = {"ref", "doc", "term", "numref", "abbr", "guilabel", "menuselection"}
_MARKUP = re.compile(r"(?::[\w:+-]{1,40}:)?`{1,2}[~!]?([^`<>]+?)(?:\s*<[^<>`]*>)?`{1,2}")
_HEADER = re.compile(r"\A(?:[A-Z][A-Za-z-]{1,30}:(?:[ \t].*)?\n(?:[ \t]+\S.*\n)*){2,}\n")
_FIELD = re.compile(r"^:?([A-Za-z][A-Za-z-]{1,30}):[ \t]+(\S.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE)


def read_rst(text: str) -> Document:
    """Read reStructuredText with any roles and directives; files are never included, raw content never passes.

    Raises what docutils raises for input that it cannot parse, such as `RecursionError` for lists nested too deeply.
    """
    header = _HEADER.match(text)
    found = _FIELD.findall(header[0] if header else text[:2_000])
    fields = {name.lower(): " ".join(value.split()) for name, value in found}
    markdown = "\n\n".join(_blocks(_parsed(text[header.end() :] if header else text), 0))
    title = fields.get("title", "") if header else ""
    name, number = next(iter(fields.items()), ("", ""))
    if title and number.isdigit():  # the number in a series, as in `PEP: 8`, is part of the document's usual name
        title = f"{name.upper()} {number}: {title}"
    if header:
        markdown = "\n".join(f"- {name.capitalize()}: {value}" for name, value in fields.items()) + f"\n\n{markdown}"
    version = fields.get("version") or fields.get("python-version", "")
    date = next((fields[name] for name in ("date", "updated", "last-modified", "created") if name in fields), "")
    return Document(markdown, title, version.strip("$ "), date.strip("$ "))


def _parsed(text: str) -> Any:
    settings = frontend.get_default_settings(rst.Parser)
    settings.file_insertion_enabled = settings.raw_enabled = False
    settings.report_level, settings.halt_level = 5, 6
    settings.warning_stream, settings.syntax_highlight = io.StringIO(), "none"
    document = utils.new_document("document", settings)
    inliner = states.Inliner()
    inliner.interpreted = _role  # type: ignore[method-assign, assignment]
    parser = rst.Parser(inliner=inliner)
    parser.state_classes = _STATES
    parser.parse(text, document)
    return document


def _role(_source: str, text: str, role: str, _line: int) -> tuple[list[Any], list[Any]]:
    """Read any role, also a role of a Sphinx extension, as its text."""
    text, name = utils.unescape(text), role.rpartition(":")[2]
    labelled = _LABELLED.match(text)
    if name in ("pep", "rfc") and not labelled:
        return [nodes.Text(f"{name.upper()} {text.partition('#')[0]}")], []
    if _NAME.match(text) and name not in _PROSE_ROLES and not labelled:
        return [nodes.literal(text, text.lstrip("!~@."))], []
    return [nodes.Text(labelled[1] if labelled else text)], []


class _Tolerant:
    """A state of the parser that reads unknown directives as containers.

    Registering their names with docutils would change it for the whole process.
    """

    nested_sm_cache: list[Any] = []  # noqa: RUF012 - docutils keeps state machines there; its own states have another list

    def __init__(self, state_machine: Any, debug: bool = False) -> None:
        super().__init__(state_machine, debug)  # type: ignore[call-arg]
        self.nested_sm_kwargs = self.indent_sm_kwargs = {"state_classes": _STATES, "initial_state": "Body"}

    def run_directive(self, directive: Any, match: Any, name: str, presets: Any) -> Any:
        is_code = CODE.match(name)  # it may have options that only Sphinx knows
        return self.unknown_directive(name) if is_code else super().run_directive(directive, match, name, presets)  # type: ignore[misc]

    def unknown_directive(self, type_name: str) -> tuple[list[Any], bool]:
        machine: Any = self.state_machine  # type: ignore[attr-defined]
        offset = machine.abs_line_offset()
        lines, _, _, blank_finish = machine.get_first_known_indented(0, strip_indent=False)
        argument, rest = [lines[0].partition("::")[2].strip()], list(lines[1:])
        while rest and rest[0].strip() and (argument[0] or rest[0].lstrip().startswith(":")):
            line = rest.pop(0).strip()
            argument += [] if line.startswith(":") else [line]
        node = nodes.container(directive=type_name, argument=list(filter(None, argument)))
        body = dedent("\n".join(rest)).strip("\n")
        if CODE.match(type_name):
            node += nodes.literal_block("", body) if body else ()
        elif not SILENT.match(type_name):
            self.nested_parse(StringList(body.split("\n"), source="document"), offset + 1, node)  # type: ignore[attr-defined]
        return [node], blank_finish


_STATES = tuple(type(cls.__name__, (_Tolerant, cls), {}) for cls in states.state_classes)


def _blocks(node: Any, level: int) -> Iterator[str]:
    """Yield the children of *node* as blocks of Markdown; *level* is the depth of the heading above them."""
    for child in node.children:
        yield from filter(None, _block(child, level))


def _body(node: Any, level: int, marker: str = "") -> str:
    """Return the blocks of *node*; after a list's *marker*, lines are indented so that they belong to the item."""
    text = "\n\n".join(_blocks(node, level))
    return marker + indent(text, "    ").lstrip(" ") if marker else text


def _block(node: Any, level: int) -> Iterator[str]:  # noqa: C901 - a case for each kind of node
    match node:
        case nodes.section():
            yield from _blocks(node, level + 1)
        case nodes.title() | nodes.rubric():
            yield _heading(_inline(node), level)
        case nodes.paragraph() | nodes.line():
            yield _inline(node)
        case nodes.literal_block() | nodes.doctest_block() | nodes.math_block():
            yield f"````\n{node.astext()}\n````"
        case nodes.bullet_list():
            yield "\n".join(_body(item, level, "- ") for item in node)
        case nodes.enumerated_list():
            yield "\n".join(_body(item, level, f"{number}. ") for number, item in enumerate(node, node.get("start", 1)))
        case nodes.definition_list_item() | nodes.field() | nodes.option_list_item():
            name = node[0].astext() if isinstance(node[0], nodes.option_group) else _inline(node[0])
            yield _body(node[-1], level, f"- **{name}**: ")
        case nodes.table():
            rows = [
                [" ".join(_body(cell, 0).split()).replace("|", "\\|") for cell in row]
                for row in node.findall(nodes.row)
            ]
            lines = [f"| {' | '.join(row)} |" for row in rows]
            yield "\n".join([*lines[:1], "|" + "---|" * len(rows[0]), *lines[1:]] if rows else [])
        case nodes.container() if "directive" in node:
            yield from _directive(node, level)
        case nodes.Admonition() if not isinstance(node, nodes.admonition):
            yield f"**{type(node).__name__.capitalize()}:** {_body(node, level)}"
        case nodes.system_message() | nodes.Invisible() | nodes.image() | nodes.raw() | nodes.label():
            return
        case nodes.Element():
            yield from _blocks(node, level)


def _directive(node: Any, level: int) -> Iterator[str]:
    name, text = node["directive"], _MARKUP.sub(r"`\1`", " ".join(node["argument"]))
    if name in VERSIONS:
        number, _, text = text.partition(" ")
        yield f"{VERSIONS[name]} {number}: {text} {_body(node, level)}".rstrip(": ")
        return
    if _SIGNATURE.match(name) and text:
        level += 1
        yield _heading(" · ".join(node["argument"][:3]), level)
    elif text and not SILENT.match(name) and not CODE.match(name):
        yield f"**{text}**" if node.children else text if " " in text else ""
    yield from _blocks(node, level)


def _heading(text: str, level: int) -> str:
    return f"{'#' * min(max(level, 1), 6)} {text}" if text else ""


def _inline(node: Any) -> str:
    """Return the text of a paragraph on one line: literals in backticks, references as their text."""
    return " ".join("".join(map(_piece, node.children)).split())


def _piece(node: Any) -> str:
    match node:
        case nodes.literal():
            return f"`{node.astext()}`"
        case nodes.strong():
            return f"**{node.astext()}**"
        case nodes.footnote_reference() | nodes.citation_reference():
            return f"[{node.astext()}]"
        case nodes.system_message() | nodes.Invisible() | nodes.image() | nodes.raw():
            return ""
    return "".join(map(_piece, node.children)) or str(node.astext())
