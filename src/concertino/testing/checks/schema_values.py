"""Values that match a JSON Schema, for the arguments and typed answers of a model that no provider serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 6
"""Levels of a recursive schema after which optional properties are left out."""


def value_of(schema: Mapping[str, Any], text: str, choice: int = 0) -> Any:
    """Return a value for *schema*: its texts are *text* where the schema allows it; *choice* selects alternatives.

    Formats and patterns are not generated: a tool that needs one reports the argument to the model.
    """
    return _Values(schema, text, choice).value(schema, 0)


class _Values:
    def __init__(self, root: Mapping[str, Any], text: str, choice: int) -> None:
        self._root = root
        self._text = text
        self._choice = choice

    def value(self, schema: Any, depth: int) -> Any:
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._one_of(schema["enum"])
        for name in ("anyOf", "oneOf"):
            if schema.get(name):
                return self.value(self._one_of(self._shallow(schema[name], depth)), depth)
        if schema.get("allOf"):
            merged = {key: value for part in schema["allOf"] for key, value in self._resolved(part).items()}
            return self.value(merged, depth)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = self._one_of(kind) if isinstance(kind, list) else kind
        return getattr(self, f"_{kind}", self._string)(schema, depth)

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        while isinstance(schema, Mapping) and "$ref" in schema:
            found: Any = self._root
            for step in schema["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            schema = found
        return schema if isinstance(schema, Mapping) else {}

    def _shallow(self, options: list[Any], depth: int) -> list[Any]:
        plain = [each for each in options if self._resolved(each).get("type") not in ("object", "array")]
        return plain if plain and depth > _DEEPEST else options

    def _one_of(self, options: list[Any]) -> Any:
        return options[self._choice % len(options)]

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        needed = schema.get("required", ())
        properties = schema.get("properties", {})
        wanted = needed if depth > _DEEPEST or self._choice % 2 else properties
        return {name: self.value(properties.get(name, {}), depth + 1) for name in wanted}

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        count = max(schema.get("minItems", 0), int(depth <= _DEEPEST and schema.get("maxItems", 1) > 0))
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _string(self, schema: Mapping[str, Any], _depth: int) -> str:
        text = self._text.ljust(schema.get("minLength", 0), "x")
        return text[: schema["maxLength"]] if "maxLength" in schema else text

    def _integer(self, schema: Mapping[str, Any], _depth: int) -> int:
        return int(self._number(schema, 0))

    def _number(self, schema: Mapping[str, Any], _depth: int) -> float | int:
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1 if "exclusiveMinimum" in schema else None)
        most = schema.get("maximum", schema.get("exclusiveMaximum", 0) - 1 if "exclusiveMaximum" in schema else None)
        value = (1 if least is None else least) + self._choice
        return value if most is None or value <= most else (most if least is None else least)

    def _boolean(self, _schema: Mapping[str, Any], _depth: int) -> bool:
        return self._choice % 2 == 0

    def _null(self, _schema: Mapping[str, Any], _depth: int) -> None:
        return None
