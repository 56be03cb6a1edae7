"""A function's parameters as a JSON Schema, and the check of arguments against it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError

from ..errors import ConfigurationError, ToolArgumentsError
from .base import ToolContext


class Arguments:
    """What a function takes, worked out once when it becomes a tool.

    Raises `ConfigurationError` if a parameter has no type, or one that has no JSON Schema.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.context_name, self._model = _model_of(function, name)
        self.schema = _schema(self._model)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments by parameter, converted. Raises `ToolArgumentsError`, naming the parameter."""
        try:
            checked = self._model.model_validate(arguments)
        except ValidationError as error:
            raise ToolArgumentsError("; ".join(_problem(e) for e in error.errors(include_url=False))) from None
        return dict(checked.__dict__)  # the fields as they were converted, which are not pydantic's to dump


def _model_of(function: Callable[..., Any], name: str) -> tuple[str | None, type[BaseModel]]:
    """The name of the context parameter, and a pydantic model of the others."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(f"tool {name!r}: {error}; types of tools must be importable") from None
    context_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(f"tool {name!r}: parameter {parameter} cannot be described to a model")
        if parameter.name not in hints:
            raise ConfigurationError(f"tool {name!r}: parameter {parameter.name!r} needs a type")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], Field(default))
    try:
        return context_name, create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    except PydanticSchemaGenerationError as error:
        kind = str(error).split(". ", 1)[0]
        raise ConfigurationError(f"tool {name!r}: {kind}: use types that JSON can carry") from None


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _problem(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"])
    return f"{place}: {error['msg']}" if place else str(error["msg"])
