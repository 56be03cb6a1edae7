"""The JSON form of events: one object per event, with its version, and the way back.

The form follows from the annotations of the classes: a new field needs no code here. `concertino.events` exports the
functions.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import DamagedDataError, StorageError
from .events import Event, RunEvent, RunResult, RunStarted

EVENT_VERSION = 1
"""Version of the form. A reader refuses a greater one, and ignores fields that it does not know."""
_LEFT_OUT: dict[type[Any], tuple[str, ...]] = {
    RunResult: ("messages", "context", "report"),
    RunStarted: ("conversation_id", "traceparent"),
}
"""Fields without a form. The store has the messages; the others are values of this process, or for observers."""
_ON_READING: dict[str, tuple[()]] = {"messages": ()}


def event_json(event: RunEvent) -> dict[str, Any]:
    """Return *event* as JSON values: `v`, `type`, and its fields by name. Decimals are strings.

    The `result` of `RunEnded` has neither `messages` nor the state of the context: read them from the store.
    """
    kind = type(event)
    name_of_type, names = _described(kind)  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
    form: dict[str, Any] = {"v": EVENT_VERSION, "type": name_of_type}
    for name in names:
        value = getattr(event, name)
        form[name] = value if value.__class__ in _SIMPLE else _plain(value)
    return form


def event_from_json(form: dict[str, Any]) -> RunEvent:
    """Return the event whose form is *form*.

    Raises `StorageError` if a newer version wrote it, and `DamagedDataError` if it is not the form of an event.
    """
    try:
        if form["v"] > EVENT_VERSION:
            raise StorageError(
                f"an event has format {form['v']}, and this concertino reads up to {EVENT_VERSION}: install a newer one"
            )
        return _read_object(_events()[form["type"]], form)  # type: ignore[no-any-return]
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise DamagedDataError(f"not the form of an event: {error!r}") from error


@cache
def event_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of `event_json`."""
    definitions: dict[str, Any] = {}
    choices = []
    for name, kind in _events().items():
        _define(kind, definitions)
        definition = definitions[kind.__name__]
        definition["properties"] = {"v": {"const": EVENT_VERSION}, "type": {"const": name}, **definition["properties"]}
        definition["required"] = ["v", "type", *definition["required"]]
        choices.append({"$ref": f"#/$defs/{kind.__name__}"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "oneOf": choices, "$defs": definitions}


@cache
def _events() -> dict[str, type[Any]]:
    return {_type_name(kind): kind for kind in get_args(RunEvent)}


@cache
def _described(kind: Any) -> tuple[str, tuple[str, ...]]:
    """Return the `type` of an event's class, and the names of its fields that have a form."""
    return _type_name(kind), _names(kind)


def _type_name(kind: type[Event]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of *kind* that have a form."""
    left_out = _LEFT_OUT.get(kind, ())
    return tuple([field.name for field in dataclasses.fields(kind) if field.name not in left_out])


# -- to JSON -----------------------------------------------------------------------------------------------------------

_SIMPLE = frozenset((str, int, bool, type(None)))


def _plain(value: Any) -> Any:
    kind = value.__class__
    if kind in _SIMPLE:
        return value
    if kind is tuple or kind is list:
        return [_plain(item) for item in value]
    if kind is dict:
        return {str(name): _plain(item) for name, item in value.items()}
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if hasattr(kind, "__dataclass_fields__"):
        form = {name: _plain(getattr(value, name)) for name in _names(kind)}
        return {"role": kind.role, **form} if hasattr(kind, "role") else form
    return str(value)  # a Decimal, or a value of the product's that JSON does not know


def _tag(kind: type[Any]) -> tuple[str, str]:
    """Return the name and the value of the field that tells *kind* from the other classes of its union."""
    if hasattr(kind, "role"):
        return "role", kind.role
    default = next(field.default for field in dataclasses.fields(kind) if field.name == "kind")
    return "kind", str(default)


# -- from JSON ---------------------------------------------------------------------------------------------------------

_Reader = Callable[[Any], Any]


def _read_object(kind: type[Any], form: dict[str, Any]) -> Any:
    readers = _readers(kind)  # type: ignore[arg-type]  # as above
    values = {name: readers[name](value) for name, value in form.items() if name in readers}
    if kind is RunResult:
        values |= _ON_READING
    return kind(**values)


@cache
def _readers(kind: Any) -> dict[str, _Reader]:
    hints = get_type_hints(kind)
    return {name: _reader(hints[name]) for name in _names(kind)}


def _reader(hint: Any) -> _Reader:
    """Return the function that restores a value of the type *hint* from JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return lambda form: _read_object(hint, form)  # type: ignore[arg-type]
    if hint is Decimal:
        return Decimal
    if origin is tuple and arguments[1:] == (...,):
        item = _reader(arguments[0])
        return lambda form: tuple([item(each) for each in form])
    if origin in (Union, types.UnionType):
        return _union_reader([each for each in arguments if each is not types.NoneType])
    return lambda form: form


def _union_reader(kinds: list[Any]) -> _Reader:
    if len(kinds) == 1:
        read = _reader(kinds[0])
        return lambda form: None if form is None else read(form)
    if not all(map(dataclasses.is_dataclass, kinds)):
        return lambda form: form
    tag, _ = _tag(kinds[0])
    by_tag = {_tag(kind)[1]: kind for kind in kinds}
    return lambda form: None if form is None else _read_object(by_tag[form[tag]], form)


# -- the schema --------------------------------------------------------------------------------------------------------

_JSON_TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    types.NoneType: {"type": "null"},
    Decimal: {"type": "string", "pattern": r"^-?[0-9.]+([eE][+-]?[0-9]+)?$"},
    Any: {},
}


def _define(kind: type[Any], definitions: dict[str, Any]) -> None:
    if kind.__name__ in definitions:
        return
    definitions[kind.__name__] = {}  # a class may refer to itself
    hints = get_type_hints(kind)
    properties = {name: _schema(hints[name], definitions) for name in _names(kind)}  # type: ignore[arg-type]  # as above
    if hasattr(kind, "role"):
        properties = {"role": {"const": kind.role}, **properties}
    text = (kind.__doc__ or "").partition("\n\n")[0]
    definitions[kind.__name__] = {
        "type": "object",
        "description": " ".join(text.split()),
        "properties": properties,
        "required": list(properties),
    }


def _schema(  # noqa: PLR0911 - one case per kind of type
    hint: Any, definitions: dict[str, Any]
) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _JSON_TYPES:
        return dict(_JSON_TYPES[hint])
    if dataclasses.is_dataclass(hint):
        _define(hint, definitions)  # type: ignore[arg-type]
        return {"$ref": f"#/$defs/{hint.__name__}"}  # type: ignore[union-attr]
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each, definitions) for each in arguments]}
    return {}
