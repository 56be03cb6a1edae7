"""The JSON Schema of a tool that does not validate its arguments itself."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable
from typing import Any

from ..errors import ConfigurationError, ToolArgumentsError, WorkerError
from .workers import in_worker

_NAMED = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
"""Keywords whose value has a schema for each name."""
_DATA = ("const", "default", "enum", "examples")
_REFERENCES = ("$dynamicRef", "$recursiveRef", "$ref")
_LINEAR = frozenset((
    "$comment", "$defs", "$id", "$schema", "additionalProperties", "allOf", "anyOf", "const", "contains", "default",
    "definitions", "deprecated", "description", "else", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum",
    "format", "if", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "not", "nullable", "oneOf", "prefixItems", "properties", "readOnly",
    "required", "then", "title", "type", "writeOnly",
))  # fmt: skip
"""Keywords whose check takes at most one pass over the schema for each value. Others take more: `uniqueItems` compares
all pairs, a `pattern` can take exponential time, and so can references to definitions that refer to others twice."""
_MOST_NODES = 100_000
_INLINE_WORK = 20_000
"""The largest product of the schema's and the arguments' sizes that is checked in this process."""
_CPU_SECONDS = 2.0
_LONGEST_PROBLEM = 2_000


class ArgumentsSchema:
    """A schema, measured once and compiled once.

    Cheap checks are made at once. The others are made in a worker process: they would block the event loop for as long
    as a model or a schema from outside likes. Nothing is ever fetched.

    Raises `ConfigurationError` if the schema refers to another document or is too large.
    """

    def __init__(self, schema: dict[str, Any], tool: str) -> None:
        self._schema = schema
        self._size, self._linear = _measured(schema, tool)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Return *arguments*, or an awaitable of them. Raises `ToolArgumentsError`, naming the argument."""
        if not self._linear or _larger(arguments, _INLINE_WORK // self._size):
            return self._validate_in_worker(arguments)
        if problem := problem_of(self._validator, arguments):
            raise ToolArgumentsError(problem)
        return arguments

    async def _validate_in_worker(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            problem = await in_worker(check, self._text, arguments, cpu_seconds=_CPU_SECONDS)
        except WorkerError as error:
            if error.raised:
                raise ToolArgumentsError(f"the schema of this tool cannot be used: {error}") from None
            raise ToolArgumentsError(
                f"the arguments are too expensive to check ({error}): use fewer and shorter values"
            ) from None
        if problem:
            raise ToolArgumentsError(problem)
        return arguments

    @functools.cached_property
    def _validator(self) -> Any:
        return _compiled(self._schema)

    @functools.cached_property
    def _text(self) -> str:
        return json.dumps(self._schema)


def check(schema: str, arguments: dict[str, Any]) -> str:
    """Return how *arguments* violate the *schema*, or "". Called in a worker."""
    return problem_of(_compiled_text(schema), arguments)


def problem_of(validator: Any, arguments: dict[str, Any]) -> str:
    """Return the first violation with its argument, or ""."""
    error = next(validator.iter_errors(arguments), None)
    if error is None:
        return ""
    path = ".".join(map(str, error.absolute_path))
    return (f"{path}: {error.message}" if path else str(error.message))[:_LONGEST_PROBLEM]


@functools.lru_cache(maxsize=100)
def _compiled_text(schema: str) -> Any:
    return _compiled(json.loads(schema))


def _compiled(schema: dict[str, Any]) -> Any:
    """Return the validator of *schema*. Raises an error of jsonschema if the schema is invalid."""
    import jsonschema  # noqa: PLC0415 - slow to import, and function tools validate with pydantic instead
    from referencing import Registry  # noqa: PLC0415

    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, registry=Registry())  # the default registry fetches what it does not contain


def _measured(schema: dict[str, Any], tool: str) -> tuple[int, bool]:
    """Return the number of keywords and names, at least 1, and whether a check takes linear time."""
    size, linear = 1, True
    nodes: list[Any] = [schema]
    while nodes:
        node = nodes.pop()
        size += 1
        if size > _MOST_NODES:
            raise ConfigurationError(
                f"tool {tool!r}: its schema has more than {_MOST_NODES:,} parts; use a smaller one"
            )
        if isinstance(node, list | tuple):
            nodes += node
        if not isinstance(node, dict):
            continue
        for keyword, value in node.items():
            size += 1
            linear = linear and (keyword in _LINEAR or str(keyword).startswith("x-"))
            if keyword in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
                raise ConfigurationError(
                    f"tool {tool!r}: its schema refers to {value!r:.200}; schemas are not fetched: copy it to '$defs'"
                )
            if keyword in _NAMED and isinstance(value, dict):
                nodes += value.values()
            elif keyword in _DATA:
                size += len(value) if isinstance(value, list | tuple | dict) else 0
            else:
                nodes.append(value)
    return size, linear


def _larger(arguments: dict[str, Any], most: int) -> bool:
    """Return whether *arguments* have more than *most* values."""
    seen = 0
    values: list[Any] = [arguments]
    while values:
        value = values.pop()
        seen += 1
        if isinstance(value, dict | list):
            if seen + len(value) > most:
                return True
            values += value.values() if isinstance(value, dict) else value
    return seen > most
