"""Record classes: frozen dataclasses with slots that cost little to define and to construct.

`dataclasses.dataclass` compiles up to eight methods per class while a module is imported. A record compiles only
`__init__`, when it is first needed, and shares the other methods with all records. In every other respect it is a
dataclass: `fields`, `replace`, `asdict`, pattern matching, copying and pickling work.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


class _Factory:
    """Marks a parameter whose default comes from a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(*, frozen: bool = ..., kw_only: bool = ..., eq: bool = ...) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def record(
    cls: type[Any] | None = None, /, *, frozen: bool = True, kw_only: bool = False, eq: bool = True
) -> type[Any] | Callable[[type[Any]], type[Any]]:
    """Make the class a dataclass with slots, frozen unless *frozen* is false.

    A frozen class that extends another dataclass becomes an ordinary dataclass, with all methods compiled at once.

    Raises `TypeError` for whatever `dataclasses.dataclass` rejects, and for an `InitVar`.
    """

    def decorate(cls: type[Any]) -> type[Any]:
        if frozen and dataclasses.is_dataclass(cls):
            return dataclasses.dataclass(frozen=True, slots=True, kw_only=kw_only, eq=eq)(cls)
        return _record(cls, frozen=frozen, kw_only=kw_only, eq=eq)

    return decorate if cls is None else decorate(cls)


def _record(cls: type[Any], *, frozen: bool, kw_only: bool, eq: bool) -> type[Any]:
    own = vars(cls).copy()
    cls.__doc__ = cls.__doc__ or f"{cls.__name__}(...)"  # or `dataclasses` would parse a signature for it
    # Without methods to write, this collects and checks the fields, adds the slots, and compiles nothing.
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    fields = dataclasses.fields(made)
    _check(made, fields)
    methods: dict[str, Any] = {"__init__": _Init(made, fields, frozen=frozen), "__repr__": _repr}
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        made.__record_compared__ = _values_of([field.name for field in fields if field.compare])
        made.__record_hashed__ = _values_of([field.name for field in fields if _is_hashed(field)])
    if frozen:
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
        if taken := {"__setattr__", "__delattr__"} & own.keys():
            raise TypeError(f"Cannot overwrite attribute {min(taken)} in class {cls.__name__}")
        made.__setattr__, made.__delattr__ = _setattr, _delattr
    if own.get("__hash__") is None:
        own.pop("__hash__", None)  # Python sets it to None next to an `__eq__` of the class's own
    for name in methods.keys() - own.keys():
        setattr(made, name, methods[name])
    params = made.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = True, True, eq, frozen
    return made  # type: ignore[no-any-return]


def _check(cls: Any, fields: Sequence[Field[Any]]) -> None:
    """Raise the errors that `dataclasses` leaves to the methods that it did not write."""
    all_fields = cls.__dataclass_fields__
    for name in all_fields.keys() - {field.name for field in fields}:
        if "InitVar" in str(all_fields[name].type):
            raise TypeError(f"record {cls.__name__} has the InitVar {name!r}; use dataclasses.dataclass")
    optional = False
    for field in fields:
        if field.init and not field.kw_only:
            if optional and _is_required(field):
                raise TypeError(f"non-default argument {field.name!r} follows default argument")
            optional = optional or not _is_required(field)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _is_hashed(field: Field[Any]) -> bool:
    return field.compare if field.hash is None else field.hash


# -- construction ------------------------------------------------------------------------------------------------------


class _Init:
    """A record's `__init__` before its first use: most records of a module are never constructed in a process."""

    __slots__ = ("_cls", "_fields", "_frozen")

    def __init__(self, cls: type[Any], fields: Sequence[Field[Any]], *, frozen: bool) -> None:
        self._cls = cls
        self._fields = fields
        self._frozen = frozen

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        """Compile the method, replace this object with it, and bind it."""
        function = _compile_init(self._cls, self._fields, frozen=self._frozen)
        self._cls.__init__ = function
        return function.__get__(instance, owner)


def _compile_init(cls: Any, fields: Sequence[Field[Any]], *, frozen: bool) -> FunctionType:
    """Write and compile `__init__`.

    In a frozen class the slots' own `__set__` stores a value at half the cost of `object.__setattr__`.
    """
    this = "self" if all(field.name != "self" for field in fields) else "__record_self"
    names: dict[str, Any] = {"__factory": _FACTORY}
    lines: list[str] = []
    for field in fields:
        name = value = field.name
        if field.default_factory is not MISSING:
            names[f"__default_{name}"] = field.default_factory
            value = f"__default_{name}()"
            value = f"{value} if {name} is __factory else {name}" if field.init else value
        elif not field.init:
            if field.default is MISSING:
                continue
            value = f"__default_{name}"
        if field.default is not MISSING:
            names[f"__default_{name}"] = field.default
        names[f"__set_{name}"] = getattr(cls, name).__set__
        lines.append(f"__set_{name}({this}, {value})" if frozen else f"{this}.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(f"{this}.__post_init__()")
    body = "\n  ".join(lines or ["pass"])
    source = f"def make({', '.join(names)}):\n def __init__({_parameters(this, fields)}):\n  {body}\n return __init__"
    code = compile(source, f"<record {cls.__module__}.{cls.__qualname__}>", "exec")
    made: dict[str, Any] = {}
    # In the module's namespace, where annotations can be resolved.
    exec(code, vars(sys.modules[cls.__module__]), made)  # noqa: S102 - the source consists of field names
    function: FunctionType = made["make"](**names)
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return function


def _parameters(this: str, fields: Sequence[Field[Any]]) -> str:
    positional = [_parameter(field) for field in fields if field.init and not field.kw_only]
    keyword = [_parameter(field) for field in fields if field.init and field.kw_only]
    return ", ".join([this, *positional, *(["*", *keyword] if keyword else [])])


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=__factory"
    return field.name if field.default is MISSING else f"{field.name}=__default_{field.name}"


# -- the methods that all records share --------------------------------------------------------------------------------


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return staticmethod(lambda self: tuple([getattr(self, name) for name in names]))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    values = self.__record_compared__
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self.__record_hashed__(self))


def _setattr(self: Any, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """Return whether *name* must not change; a plain subclass may have attributes of its own."""
    return "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


for _method, _name in (
    (_repr, "__repr__"),
    (_eq, "__eq__"),
    (_hash, "__hash__"),
    (_setattr, "__setattr__"),
    (_delattr, "__delattr__"),
    (_getstate, "__getstate__"),
    (_setstate, "__setstate__"),
):
    _method.__name__ = _name
