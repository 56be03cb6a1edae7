"""reStructuredText, read by docutils and written as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from functools import cache
from textwrap import indent
from typing import Any

from docutils import frontend, nodes, utils
from docutils.parsers import rst
from docutils.parsers.rst import states
from docutils.statemachine import StringList

from .document import Document

_SIGNATURES = re.compile(
    r"(?:\w+:)?(?:c?function|\w*method|class|exception|data|attribute|property|option|cmdoption|decorator\w*"
    r"|confval|setting|macro|type|enum|envvar|command|fixture|role|directive|describe|object)$"
)
_CODE = re.compile(r"(?:code\S*|sourcecode|testcode|testoutput|ipython|prompt|productionlist|graphviz|mermaid)$")
_SILENT = re.compile(
    r"(?:auto\w+|toctree|contents|index|highlight|\w*currentmodule|testsetup|testcleanup|\w+author|meta|plot|(?:py:)?module)$"
)
_VERSIONS = {
    "versionadded": "Added in version", "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version", "versionremoved": "Removed in version",
}  # fmt: skip
_LABELLED = re.compile(r"^(.+?)\s*<[^<>]*>$", re.DOTALL)
_NAME = re.compile(r"[!~@.]?[\w.$-]*[\w)](?:\(\))?$")
_PROSE_ROLES = {"ref", "doc", "term", "numref", "abbr", "guilabel", "menuselection"}
_HEADER = re.compile(r"\A(?:[A-Z][A-Za-z-]{1,30}:(?:[ \t].*)?\n(?:[ \t]+\S.*\n)*){2,}\n")
_HEADER_FIELD = re.compile(r"^([A-Z][A-Za-z-]{1,30}):[ \t]*(.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE)
_VERSION_FIELDS, _DATE_FIELDS = ("version", "python-version"), ("date", "updated", "last-modified", "created")


def read_rst(text: str) -> Document:
    """Read reStructuredText with any roles and directives; files are never included, raw content never passes.

    Raises what docutils raises for input that it cannot parse, such as `RecursionError` for lists nested too deeply.
    """
    header = _HEADER.match(text)
    fields = {name: " ".join(value.split()) for name, value in _HEADER_FIELD.findall(header[0])} if header else {}
    tree = _parsed(text[header.end() :] if header else text)
    lines = [f"- {name}: {value}" for name, value in fields.items() if value]
    markdown = "\n\n".join(["\n".join(lines), *_blocks(tree, 0)])
    title = fields.get("Title", "")
    name, number = next(iter(fields.items()), ("", ""))
    if title and number.isdigit():  # the number in a series, as in `PEP: 8`, is part of the document's usual name
        title = f"{name} {number}: {title}"
    stated = {name.lower(): value.strip("$ ") for name, value in (fields | _docinfo(tree)).items()}
    version, date = (
        next((stated[name] for name in names if stated.get(name)), "") for names in (_VERSION_FIELDS, _DATE_FIELDS)
    )
    return Document(title, markdown, version, date)


def _parsed(text: str) -> Any:
    settings = frontend.get_default_settings(rst.Parser)
    settings.file_insertion_enabled = settings.raw_enabled = False
    settings.report_level, settings.halt_level = 5, 6
    settings.warning_stream, settings.syntax_highlight = io.StringIO(), "none"
    document = utils.new_document("document", settings)
    inliner = states.Inliner()
    inliner.interpreted = _role
    parser = rst.Parser(inliner=inliner)
    parser.state_classes = _state_classes()
    parser.parse(text, document)
    return document


def _role(rawsource: str, text: str, role: str, lineno: int) -> tuple[list[Any], list[Any]]:
    """Read any role, also one that only an extension of Sphinx knows, as its text."""
    text, name = utils.unescape(text), role.rpartition(":")[2]
    labelled = _LABELLED.match(text)
    shown = labelled[1] if labelled else text
    if name in ("pep", "rfc") and not labelled:
        shown = f"{name.upper()} {shown.partition('#')[0]}"
    elif _NAME.match(shown) and name not in _PROSE_ROLES and not labelled:
        return [nodes.literal(shown, shown.lstrip("!~@."))], []
    return [nodes.Text(shown)], []


class _Tolerant:
    """A state of the parser that reads unknown directives as containers.

    Registering their names with docutils would change it for the whole process.
    """

    nested_sm_cache: list[Any] = []  # noqa: RUF012 - docutils keeps state machines there; its own states have another list

    def __init__(self, state_machine: Any, debug: bool = False) -> None:
        super().__init__(state_machine, debug)  # type: ignore[call-arg]
        self.nested_sm_kwargs = {"state_classes": _state_classes(), "initial_state": "Body"}
        self.indent_sm_kwargs = self.nested_sm_kwargs

    def unknown_directive(self, type_name: str) -> tuple[list[Any], bool]:
        """Return a container that knows the directive's name and argument."""
        machine: Any = self.state_machine  # type: ignore[attr-defined]
        offset = machine.abs_line_offset()
        lines, _, _, blank_finish = machine.get_first_known_indented(0, strip_indent=False)
        first, rest = lines[0].partition("::")[2].strip(), list(lines[1:])
        argument = [first] if first else []
        while rest and rest[0].strip() and (argument or rest[0].lstrip().startswith(":")):
            if not rest[0].lstrip().startswith(":"):
                argument.append(rest[0].strip())
            del rest[0]
        node = nodes.container(directive=type_name, argument=argument)
        body = StringList(rest, source="document")
        if any(map(str.strip, rest)) and not _SILENT.match(type_name):
            body.trim_left(min(len(line) - len(line.lstrip()) for line in rest if line.strip()))
            if _CODE.match(type_name):
                node += nodes.literal_block("", "\n".join(body))
            else:
                self.nested_parse(body, offset + 1, node)  # type: ignore[attr-defined]
        return [node], blank_finish


@cache
def _state_classes() -> tuple[type, ...]:
    return tuple(type(cls.__name__, (_Tolerant, cls), {}) for cls in states.state_classes)


def _docinfo(document: Any) -> dict[str, str]:
    """Return the fields at the top of a document."""
    first = next(iter(document.findall(nodes.field_list)), None)
    if first is None or first.parent.index(first) > 1:
        return {}
    return {field[0].astext(): field[1].astext().strip() for field in first}


def _blocks(node: Any, level: int) -> Iterator[str]:
    """Yield the children of *node* as blocks of Markdown; *level* is the depth of the heading above them."""
    for child in node.children:
        yield from filter(None, _block(child, level))


def _body(node: Any, level: int) -> str:
    return "\n\n".join(_blocks(node, level))


def _item(marker: str, text: str) -> str:
    """Return a list item: the lines after the first are indented, so that they belong to it."""
    return marker + indent(text, "    ").lstrip(" ")


def _block(node: Any, level: int) -> Iterator[str]:  # noqa: C901, PLR0912 - a case for each kind of node
    match node:
        case nodes.section():
            yield from _blocks(node, level + 1)
        case nodes.title() | nodes.rubric():
            yield _heading(_inline(node), level + isinstance(node, nodes.rubric))
        case nodes.paragraph() | nodes.line():
            yield _inline(node)
        case nodes.literal_block() | nodes.doctest_block() | nodes.math_block():
            yield f"````\n{node.astext()}\n````"
        case nodes.bullet_list():
            yield "\n".join(_item("- ", _body(item, level)) for item in node.children)
        case nodes.enumerated_list():
            first = int(node.get("start", 1))
            yield "\n".join(_item(f"{number}. ", _body(item, level)) for number, item in enumerate(node, first))
        case nodes.definition_list_item() | nodes.field() | nodes.option_list_item():
            name = node[0].astext() if isinstance(node[0], nodes.option_group) else _inline(node[0])
            yield _item(f"- **{name}**: ", _body(node[-1], level))
        case nodes.table():
            yield _table(node)
        case nodes.footnote() | nodes.citation():
            yield f"[{node[0].astext()}] {_body(node, level)}"
        case nodes.container() if "directive" in node:
            yield from _directive(node, level)
        case nodes.Admonition() if not isinstance(node, nodes.admonition):
            yield f"**{node.tagname.capitalize()}:** {_body(node, level)}"
        case nodes.system_message() | nodes.Invisible() | nodes.image() | nodes.raw() | nodes.label():
            return
        case nodes.Element():
            yield from _blocks(node, level)


def _directive(node: Any, level: int) -> Iterator[str]:
    name, argument = node["directive"], node["argument"]
    text = re.sub(r"(?::[\w:+-]{1,40}:)?`{1,2}[~!]?([^`<>]+?)(?:\s*<[^<>`]*>)?`{1,2}", r"`\1`", " ".join(argument))
    if _SILENT.match(name) or _CODE.match(name):
        yield from _blocks(node, level)
    elif _SIGNATURES.match(name) and argument:
        yield _heading(" · ".join(argument[:3]), level + 1)
        yield from _blocks(node, level + 1)
    elif name in _VERSIONS:
        number, _, text = text.partition(" ")
        yield f"{_VERSIONS[name]} {number}: {text} {_body(node, level)}".rstrip(": ")
    else:
        yield f"**{text}**" if text and node.children else text if " " in text else ""
        yield from _blocks(node, level)


def _heading(text: str, level: int) -> str:
    return f"{'#' * min(max(level, 1), 6)} {text}" if text else ""


def _table(node: Any) -> str:
    found = []
    for row in node.findall(nodes.row):
        cells = (" ".join(_body(entry, 0).split()).replace("|", "\\|") for entry in row.children)
        found.append(f"| {' | '.join(cells)} |")
        if len(found) == 1:
            found.append("|" + "---|" * len(row.children))
    return "\n".join(found)


def _inline(node: Any) -> str:
    return " ".join("".join(_pieces(node.children)).split())


def _pieces(children: Sequence[Any]) -> Iterator[str]:
    for child in children:
        match child:
            case nodes.literal():
                yield f"`{child.astext()}`"
            case nodes.strong():
                yield f"**{child.astext()}**"
            case nodes.footnote_reference() | nodes.citation_reference():
                yield f"[{child.astext()}]"
            case nodes.system_message() | nodes.Invisible() | nodes.image() | nodes.raw():
                pass
            case nodes.Element() if child.children:
                yield from _pieces(child.children)
            case _:
                yield child.astext()
