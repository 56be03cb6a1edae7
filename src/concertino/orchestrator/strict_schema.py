"""The strict form of a JSON Schema, which providers enforce while a model writes."""

from __future__ import annotations

import json
from typing import Any

_KEPT = ("type", "enum", "const", "description")
"""Keywords that every provider enforces as they are."""
_IGNORED = ("title", "default", "examples", "discriminator", "$schema", "$id", "deprecated", "readOnly", "writeOnly")
"""Keywords that do not limit the values."""
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"),
    *("format", "minItems", "maxItems", "uniqueItems"),
)
"""Limits that some providers refuse: the model reads them in the description, and the engine checks them."""


class _NotStrictError(Exception):
    """The schema has no strict form."""


def strict_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return *schema* as OpenAI, Anthropic and Google enforce it, or None if it has no such form.

    Objects have no other properties, and all of theirs are required (OpenAI, "Structured model outputs"; Anthropic,
    "Structured outputs"). Properties with a default are therefore written, too. Open objects, tuples and conditions
    have no strict form.
    """
    try:
        return _strict(schema)
    except _NotStrictError:
        return None


def _strict(schema: Any) -> dict[str, Any]:  # noqa: C901, PLR0912 - one branch per keyword
    if not isinstance(schema, dict) or not schema:
        raise _NotStrictError
    if "$ref" in schema:
        if not str(schema["$ref"]).startswith("#/$defs/"):
            raise _NotStrictError
        made: dict[str, Any] = {"$ref": schema["$ref"]}  # OpenAI refuses keywords next to a reference
        return made | _definitions(schema)
    made, limits = {}, {}
    for name, value in schema.items():
        if name in _KEPT:
            made[name] = value
        elif name in _LIMITS:
            limits[name] = value
        elif name in ("anyOf", "oneOf"):
            made["anyOf"] = [_strict(each) for each in value]
        elif name == "items":
            made[name] = _strict(value)
        elif name == "properties":
            made[name] = {each: _strict(inner) for each, inner in value.items()}
            made["required"] = list(value)
            made["additionalProperties"] = False
        elif name == "additionalProperties":
            if value is not False:
                raise _NotStrictError
        elif name not in ("required", "$defs", *_IGNORED):
            raise _NotStrictError
    kind = schema.get("type")
    if kind == "object" and "properties" not in schema:
        raise _NotStrictError
    if (kind == "array" and "items" not in schema) or not made.keys() & {"type", "enum", "const", "anyOf"}:
        raise _NotStrictError
    if limits:
        made["description"] = f"{made.get('description', '')} ({json.dumps(limits, ensure_ascii=False)})".strip()
    return made | _definitions(schema)


def _definitions(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$defs": {name: _strict(each) for name, each in schema["$defs"].items()}} if "$defs" in schema else {}
