"""A vendor's published request types as one strict, fast check."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.warnings import TypedDictExtraConfigWarning
from pydantic_core import SchemaValidator

Core = dict[str, Any]
"""A schema in the form of pydantic-core."""

_STRICT = ConfigDict(extra="forbid", strict=True)
_SHOWN = 5
_UNMARKED = "(none)"


class Schema:
    """A strict check of a request's `TypedDict`.

    Pydantic's schema of the type is made stricter: unknown fields are refused at every depth, values are not converted,
    an `Iterable` is a list whose items are checked, and a union of objects is decided by `type` or `role`, which makes
    it fast and its errors readable.

    *taken* names fields ("Class.field") that the API accepts against its own type: they may be absent or null, and have
    the given schema, or the type's own for None.
    """

    def __init__(self, kind: Any, taken: Mapping[str, Core | None]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TypedDictExtraConfigWarning)  # of types that allow more fields themselves
            core = TypeAdapter(list[kind], config=_STRICT).core_schema
        self._validator = SchemaValidator(_Reader(core, taken)(), ConfigDict(extra="forbid", strict=True))  # type: ignore[arg-type]

    def __call__(self, body: dict[str, Any]) -> list[str]:
        """Return the first problems of *body*."""
        try:
            self._validator.validate_python([body])
        except ValidationError as wrong:
            return distinguished(wrong, skip=1)
        return []


def distinguished(wrong: ValidationError, *, skip: int = 0) -> list[str]:
    """Return the deepest errors, which belong to the intended kind; *skip* names path steps to ignore."""
    found = wrong.errors(include_url=False, include_context=False, include_input=False)
    found.sort(key=lambda error: -len(error["loc"]))
    return [f"{_position(error['loc'][skip:])}: {error['msg']}" for error in found[:_SHOWN]]


def _position(loc: tuple[int | str, ...]) -> str:
    return ".".join(step for step in map(str, loc) if "[" not in step)


class _Reader:
    """Rewrites pydantic's schema of a type."""

    def __init__(self, core: Any, taken: Mapping[str, Core | None]) -> None:
        self._core = core
        self._taken = taken
        self._left = set(taken)
        self._named = {found["ref"]: found for found in core.get("definitions", ())}

    def __call__(self) -> Any:
        self._named = {name: self._loosened(found) for name, found in self._named.items()}
        written = self._read(self._core)
        if self._left:
            raise LookupError(f"the types have no {', '.join(sorted(self._left))}")
        return written

    def _read(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self._read(one) for one in schema]
        if isinstance(schema, tuple):
            return tuple(self._read(one) for one in schema)
        if not isinstance(schema, dict):
            return schema
        schema = {name: self._read(value) for name, value in self._loosened(schema).items()}
        if schema.get("type") == "generator":
            return {**schema, "type": "list"}
        return self._distinguishing(schema) if schema.get("type") == "union" else schema

    def _loosened(self, schema: Core) -> Core:
        if schema.get("type") != "typed-dict":
            return schema
        fields = dict(schema["fields"])
        for named, given in self._taken.items():
            owner, _, name = named.partition(".")
            if owner == schema["cls"].__name__:
                self._left.discard(named)
                inner = given or fields[name]["schema"]
                fields[name] = {
                    "type": "typed-dict-field",
                    "required": False,
                    "schema": {"type": "nullable", "schema": inner},
                }
        return {**schema, "fields": fields}

    def _distinguishing(self, union: Core) -> Core:
        asked = [choice for choice in union["choices"] if not self._is_answer(choice)]
        union = {**union, "choices": asked or union["choices"]}
        kinds = [self._objects(choice) for choice in union["choices"]]
        objects = [one for kind in kinds for one in kind]
        for mark in ("type", "role"):
            if len(objects) > 1 and all(kinds) and all(self._values(one, mark) for one in objects):
                return self._tagged(objects, mark)
        return union

    def _tagged(self, objects: list[Any], mark: str) -> Core:
        by_value: dict[Hashable, list[Any]] = {}
        for one in objects:
            optional = not self._object(one)["fields"][mark].get("required")
            for value in [*self._values(one, mark), *([_UNMARKED] if optional else [])]:
                by_value.setdefault(value, []).append(one)
        choices = {
            value: same[0] if len(same) == 1 else {"type": "union", "choices": same} for value, same in by_value.items()
        }

        def value_of(item: Any) -> Any:
            return (item.get(mark) or _UNMARKED) if isinstance(item, dict) else None

        discriminator: Callable[[Any], Any] = value_of
        return {"type": "tagged-union", "discriminator": discriminator, "choices": choices}

    def _objects(self, schema: Any) -> list[Any]:
        """Return the objects of a choice, or an empty list if it has other members."""
        if isinstance(schema, tuple):
            schema = schema[0]
        if self._object(schema):
            return [schema]
        if schema.get("type") == "tagged-union":
            inner = [self._objects(choice) for choice in schema["choices"].values()]
            return [one for kind in inner for one in kind] if all(inner) else []
        if schema.get("type") == "union":
            inner = [self._objects(choice) for choice in schema["choices"]]
            return [one for kind in inner for one in kind] if all(inner) else []
        return []

    def _is_answer(self, schema: Any) -> bool:
        """Return whether this is a class of answers, which SDKs allow in requests; those accept unknown fields."""
        schema = self._followed(schema[0] if isinstance(schema, tuple) else schema)
        choices = schema.get("choices")
        if choices is None:
            return bool(schema.get("type") == "model")
        return all(map(self._is_answer, choices.values() if isinstance(choices, dict) else choices))

    def _object(self, schema: Any) -> Core:
        schema = self._followed(schema)
        return schema if schema.get("type") == "typed-dict" else {}

    def _followed(self, schema: Any) -> Any:
        while schema.get("type") == "definition-ref":
            schema = self._named[schema["schema_ref"]]
        return schema

    def _values(self, schema: Any, mark: str) -> list[Any]:
        field = self._object(schema)["fields"].get(mark)
        inner = field["schema"] if field else {}
        while inner.get("type") in ("nullable", "default"):
            inner = inner["schema"]
        return list(inner["expected"]) if inner.get("type") == "literal" else []
