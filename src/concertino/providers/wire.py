"""What all adapters need to write a request: finished JSON that is joined from kept pieces.

A message, and a set of tools, becomes JSON text once. A request is these texts joined, so its cost over the history
is that of joining strings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import uuid4

from ..messages import ToolSpec

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(value: object) -> str:
    """Compact JSON."""
    return _encode(value)


def merge(base: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """*base* with *extra* over it: objects are merged key by key, all else is replaced. *base* is changed."""
    for key, value in extra.items():
        here = base.get(key)
        if isinstance(here, dict) and isinstance(value, Mapping):
            base[key] = merge(dict(here), value)
        else:
            base[key] = value
    return base


def body(head: dict[str, Any], extra: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> bytes:
    """A request's JSON: *head* with *extra* merged into it, and *lists*, whose elements are JSON already.

    A list that *extra* names as well gives way to it.
    """
    fields = [dumps(merge(head, extra))[1:-1]]
    for name, elements in lists.items():
        if name not in extra:
            fields.append(f'"{name}":[{",".join(elements)}]')
    # A lone surrogate has no UTF-8 form; a question mark in its place is what every provider accepts.
    return ("{" + ",".join(filter(None, fields)) + "}").encode("utf-8", "replace")


class ToolForms:
    """The wire form of a request's tools, built again only when the tuple is another one."""

    def __init__(self, build: Callable[[ToolSpec], object]) -> None:
        self._build = build
        self._tools: tuple[ToolSpec, ...] = ()
        self._forms: list[str] = []

    def __call__(self, tools: tuple[ToolSpec, ...]) -> list[str]:
        """The JSON of each of *tools*."""
        if tools is not self._tools:
            self._forms = [dumps(self._build(tool)) for tool in tools]
            self._tools = tools
        return self._forms


def arguments_object(text: str) -> dict[str, Any]:
    """A call's arguments as the object that providers want back.

    What the model wrote may be broken; then it comes back as the text that it was, under the name `arguments`.
    """
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": text}


def arguments_text(text: str) -> str:
    """The same as text: unchanged if it is an object."""
    value = arguments_object(text)
    return text if text and value != {"arguments": text} else dumps(value)


def new_call_id() -> str:
    """An id for a call to which the provider gave none."""
    return f"call_{uuid4().hex[:24]}"
