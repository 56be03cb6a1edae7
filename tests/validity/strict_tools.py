"""Problems that OpenAI would refuse in the parameters of a strict function ("Structured outputs")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def problems(schema: Any) -> Iterator[str]:
    """Check that every object requires all its properties and allows no others."""
    if isinstance(schema, list):
        for one in schema:
            yield from problems(one)
    if not isinstance(schema, dict):
        return
    if isinstance(properties := schema.get("properties"), dict):
        missing = sorted(set(properties) - set(schema.get("required") or ()))
        if missing:
            yield f"not required: {', '.join(missing)}"
        if schema.get("additionalProperties") is not False:
            yield "additionalProperties is not false"
        yield from problems(list(properties.values()))
    for name in ("items", "anyOf", "$defs", "definitions"):
        inner = schema.get(name)
        yield from problems(list(inner.values()) if name in ("$defs", "definitions") and inner else inner)
