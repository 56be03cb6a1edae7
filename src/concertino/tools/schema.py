"""JSON Schemas that values from outside are checked against: of tools, and of typed answers."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, TypeVar

from ..errors import ConfigurationError, WorkerError
from .workers import in_worker

T = TypeVar("T")

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
"""The largest product of the schema's and the value's sizes that is checked in this process."""
_MOST_INLINE = 2_000
"""The largest schema that is itself checked in this process: it takes less than a second."""
_CPU_SECONDS = 2.0
_LONGEST_PROBLEM = 2_000


class JsonSchema:
    """A schema, measured once and compiled once.

    Cheap checks are made at once. The others are made in a worker process: they would block the event loop for as long
    as a model or a schema from outside likes. Nothing is ever fetched.

    *owner* and *what* name the schema and the values in messages, as in "tool 'search'" and "arguments". A value that
    violates the schema raises *error* with its first *most* violations.

    Raises `ConfigurationError` if the schema refers to another document or is too large.
    """

    def __init__(
        self, schema: dict[str, Any], owner: str, what: str, error: Callable[[str], Exception], *, most: int = 1
    ) -> None:
        self._schema = schema
        self._owner, self._what, self._error, self._most = owner, what, error, most
        self._size, self._linear = _measured(schema, owner)

    def validate(self, value: T) -> T | Awaitable[T]:
        """Return *value*, or an awaitable of it. Raises the schema's error, naming the parts of the value."""
        if not self._linear or self._size > _MOST_INLINE or _larger(value, _INLINE_WORK // self._size):
            return self._validate_in_worker(value)
        try:
            problems = problems_of(self._validator, value, self._most)
        except Exception as error:  # noqa: BLE001 - jsonschema's, of an invalid schema
            raise self._error(f"the schema of {self._owner} cannot be used: {_reason(error)}") from None
        if problems:
            raise self._error(problems)
        return value

    def require_valid(self) -> None:
        """Raise `ConfigurationError` if the schema itself is invalid, or too large to find that out at once."""
        if self._size > _MOST_INLINE:
            raise ConfigurationError(
                f"{self._owner}: its schema has more than {_MOST_INLINE:,} parts; use a smaller one"
            )
        try:
            _ = self._validator
        except Exception as error:  # noqa: BLE001 - jsonschema's, and RecursionError
            raise ConfigurationError(f"{self._owner}: the JSON Schema is invalid: {_reason(error)}") from None

    async def _validate_in_worker(self, value: T) -> T:
        try:
            problems = await in_worker(check, self._text, value, self._most, cpu_seconds=_CPU_SECONDS)
        except WorkerError as error:
            if error.raised:
                raise self._error(f"the schema of {self._owner} cannot be used: {error}") from None
            raise self._error(
                f"the {self._what} are too expensive to check ({error}): use fewer and shorter values"
            ) from None
        if problems:
            raise self._error(problems)
        return value

    @functools.cached_property
    def _validator(self) -> Any:
        return _compiled(self._schema)

    @functools.cached_property
    def _text(self) -> str:
        return json.dumps(self._schema)


def check(schema: str, value: Any, most: int) -> str:
    """Return how *value* violates the *schema*, or "". Called in a worker."""
    return problems_of(_compiled_text(schema), value, most)


def problems_of(validator: Any, value: Any, most: int) -> str:
    """Return the first *most* violations, each with its path in the value, or ""."""
    found = islice(validator.iter_errors(value), most)
    return "; ".join(map(_problem, found))[:_LONGEST_PROBLEM]


def _reason(error: Exception) -> str:
    return getattr(error, "message", "") or type(error).__name__


def _problem(error: Any) -> str:
    path = ".".join(map(str, error.absolute_path))
    return f"{path}: {error.message}" if path else str(error.message)


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


def _measured(schema: dict[str, Any], owner: str) -> tuple[int, bool]:
    """Return the number of keywords and names, at least 1, and whether a check takes linear time."""
    size, linear = 1, True
    nodes: list[Any] = [schema]
    while nodes:
        node = nodes.pop()
        size += 1
        if size > _MOST_NODES:
            raise ConfigurationError(f"{owner}: its schema has more than {_MOST_NODES:,} parts; use a smaller one")
        if isinstance(node, list | tuple):
            nodes += node
        if not isinstance(node, dict):
            continue
        for keyword, value in node.items():
            size += 1
            linear = linear and (keyword in _LINEAR or str(keyword).startswith("x-"))
            if keyword in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
                raise ConfigurationError(
                    f"{owner}: its schema refers to {value!r:.200}; schemas are not fetched: copy it to '$defs'"
                )
            if keyword in _NAMED and isinstance(value, dict):
                nodes += value.values()
            elif keyword in _DATA:
                size += len(value) if isinstance(value, list | tuple | dict) else 0
            else:
                nodes.append(value)
    return size, linear


def _larger(value: Any, most: int) -> bool:
    """Return whether *value* has more than *most* values in it."""
    seen = 0
    values: list[Any] = [value]
    while values:
        each = values.pop()
        seen += 1
        if isinstance(each, dict | list):
            if seen + len(each) > most:
                return True
            values += each.values() if isinstance(each, dict) else each
    return seen > most
