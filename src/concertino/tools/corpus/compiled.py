"""Documents for what has no source: built-in types and functions, and extension modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .blocks import Block, Document
from .docstrings import doc_blocks
from .sources import compiled

_EMPTY = {"Initialize self.  See help(type(self)) for accurate signature.", "The type of the None singleton."}


def docstring(value: object) -> str:
    """The docstring of a built-in thing, without that of its type."""
    text = getattr(value, "__doc__", None)
    inherited = getattr(type(value), "__doc__", None)
    return text if isinstance(text, str) and text != inherited and text not in _EMPTY else ""


def _signature(value: Callable[..., object], name: str, text: str) -> str:
    """How it is called: from its signature, unless its docstring begins with that."""
    if re.match(rf"(?:class )?{re.escape(name.rpartition('.')[2])}\(", text):
        return ""
    written = getattr(value, "__text_signature__", None)
    return name + re.sub(r"^\(\$\w+(?:, /)?(?:, )?", "(", written) if isinstance(written, str) else ""


def _described(value: Callable[..., object], name: str) -> list[Block]:
    text = docstring(value)
    shown = _signature(value, name, text)
    return [Block("code", f"    {shown}")] * bool(shown) + doc_blocks(text) if text else []


def _members(cls: type, name: str) -> Iterator[Block]:
    for member, value in vars(cls).items():
        text = docstring(value)
        if member.startswith("_") or not text:
            continue
        shown = _signature(value, f"{name}.{member}", text) if callable(value) else ""
        yield Block("heading", shown or f"{name}.{member}")
        yield from doc_blocks(text)


def object_document(module: str, member: str, location: str) -> Document | None:
    """A built-in class with its methods, or a built-in function; None where nothing is written about it."""
    value = getattr(compiled(module), member, None)
    if not callable(value):
        return None
    in_builtins = location.startswith("builtins.")
    shown = location.removeprefix("builtins.")
    blocks = _described(value, shown)
    is_class = isinstance(value, type)
    if isinstance(value, type):
        blocks += _members(value, shown.rpartition(".")[2])
    if not blocks:
        return None
    kind = ("built-in " if in_builtins else "") + ("class" if is_class else "function")
    return Document(location=location, title=f"{shown} ({kind})", blocks=blocks)


def module_blocks(name: str) -> list[Block]:
    """What an extension module says of itself."""
    return doc_blocks(docstring(compiled(name)))
