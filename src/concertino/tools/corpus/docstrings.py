"""From parsed source to documents: docstrings with their signatures, and comments where they do that work."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from inspect import cleandoc

from . import plain
from .blocks import Block, Document
from .prose import looks_like_code
from .rst import clean_inline
from .sources import Definition, Module, statements

_MAX_SIGNATURE = 400
_LEGAL = re.compile(r"copyright|licen[sc]e|all rights|-\*-|vim?:|coding[:=]|\$Id|^\s*(?:by|author)\b", re.IGNORECASE)
_MIN_COMMENT = 3


def doc_blocks(docstring: str | None) -> list[Block]:
    """The blocks of a docstring."""
    return plain.parse(cleandoc(docstring).expandtabs(8).split("\n"), clean_inline) if docstring else []


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool) -> str:
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list)
    text = ast.unparse(node.args)
    if method and not static:
        text = re.sub(r"^\w+(?:, /)?(?:, |$)", "", text)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"({text}){returns}"
    return signature if len(signature) <= _MAX_SIGNATURE else "(...)"


def signature(node: Definition, name: str, *, method: bool = False) -> str:
    """How something is called, on one line."""
    if isinstance(node, ast.ClassDef):
        found = (inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name == "__init__")
        init = next(found, None)
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        shown = _arguments(init, method=True).removesuffix(" -> None") if init else ""
        return f"class {name}{shown}" + (f"  # extends {bases}" if bases else "")
    if _decorated(node, "property", "cached_property"):
        return name
    return f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{name}{_arguments(node, method=method)}"


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, *names: str) -> bool:
    return any(ast.unparse(mark).rpartition(".")[2] in names for mark in node.decorator_list)


def _comment_above(module: Module, node: Definition) -> list[Block]:
    """The comment directly above a definition that has no docstring."""
    first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) - 1
    start = first
    indent = " " * node.col_offset
    while start > 0 and module.lines[start - 1].startswith(f"{indent}#"):
        start -= 1
    return comment_blocks([line.strip() for line in module.lines[start:first]])


def comment_blocks(lines: Sequence[str]) -> list[Block]:
    """A comment as paragraphs, if it is prose for readers."""
    text = [re.sub(r"^#+:? ?", "", line) for line in lines]
    words = sum(len(re.findall(r"[A-Za-z]{2,}", line)) for line in text)
    prose = len(text) >= _MIN_COMMENT and words >= 4 * len(text) and not looks_like_code(text)
    return plain.parse(text) if prose and not _LEGAL.search("\n".join(text)) else []


def _top_comments(module: Module) -> list[Block]:
    """The comments at the head of a module, before its first definition."""
    first = min((node.lineno for node in module.definitions.values()), default=len(module.lines))
    blocks: list[Block] = []
    comment: list[str] = []
    for line in [*module.lines[: first - 1], ""]:
        if line.startswith("#"):
            comment.append(line)
        else:
            blocks += comment_blocks(comment)
            comment = []
    return blocks


def _documented(module: Module, node: Definition) -> list[Block]:
    return doc_blocks(ast.get_docstring(node, clean=False)) or _comment_above(module, node)


def definition_document(module: Module, node: Definition, location: str) -> Document | None:
    """A class with its methods, or a function; None where nothing is written about it, and it is in no
    `__all__` either: what is meant to be used can be looked up at least.
    """
    name = location.rpartition(".")[2]
    blocks = _documented(module, node)
    members = _member_blocks(module, node, name) if isinstance(node, ast.ClassDef) else []
    if not blocks and not members and node.name not in module.listed:
        return None
    kind = "class" if isinstance(node, ast.ClassDef) else "function"
    head = Block("code", f"    {signature(node, location)}")
    return Document(location=location, title=f"{location} ({kind})", blocks=[head, *blocks, *members])


def _member_blocks(module: Module, node: ast.ClassDef, name: str) -> list[Block]:
    blocks: list[Block] = []
    for member in statements(node.body):
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if member.name == "__init__":
            # Its arguments stand at the head of the class already.
            blocks = [*_documented(module, member), *blocks]
        elif _is_shown(member) and (documented := _documented(module, member)):
            blocks += [Block("heading", signature(member, f"{name}.{member.name}", method=True)), *documented]
    return blocks


def _is_shown(member: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not member.name.startswith("_") and not _decorated(member, "setter", "deleter")


def module_document(module: Module, docstring: str | None, contents: Sequence[tuple[str, str]]) -> Document | None:
    """A module: its docstring, the comments at its head, and what there is in it."""
    blocks = [*doc_blocks(docstring), *_top_comments(module)]
    return listed_document(module.name, blocks, contents)


def listed_document(shown: str, blocks: Sequence[Block], contents: Sequence[tuple[str, str]]) -> Document | None:
    """A module's document; None where there is nothing to say of it."""
    if not blocks and not contents:
        return None
    lines = [f"{name}: {text}" if text else name for name, text in contents]
    appendix = "\n".join(["In this module:", *lines]) if lines else ""
    return Document(location=shown, title=f"{shown} (module)", blocks=blocks, appendix=appendix)
