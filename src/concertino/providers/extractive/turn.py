"""A turn: what the model says or calls, before it is streamed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...messages import ToolSpec


@dataclass(frozen=True, slots=True)
class Call:
    """A tool to be called."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """Text, or calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = field(default=())


def fill(spec: ToolSpec, values: Mapping[str, Any], text: str) -> Call:
    """A call of *spec* with *values*; what else its schema requires is filled, texts with *text*."""
    known = _properties(spec)
    arguments = {name: value for name, value in values.items() if name in known or not known}
    required = spec.parameters.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if name not in arguments:
            arguments[name] = _default(known.get(name), text)
    return Call(spec.name, arguments)


def argument_name(spec: ToolSpec, names: Sequence[str]) -> str:
    """Under which of *names* the tool takes an argument; the first of them if its schema knows none."""
    known = _properties(spec)
    return next((name for name in names if name in known), names[0])


def _properties(spec: ToolSpec) -> Mapping[str, Any]:
    known = spec.parameters.get("properties")
    return known if isinstance(known, Mapping) else {}


def _default(schema: object, text: str) -> Any:
    if not isinstance(schema, Mapping):
        return text
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    empty: dict[str, Any] = {
        "integer": 1,
        "number": 1,
        "boolean": False,
        "array": [],
        "object": {},
        "null": None,
    }
    kind = schema.get("type")
    return empty[kind] if isinstance(kind, str) and kind in empty else text
