"""The arguments of a function tool: a JSON Schema from its parameters, and validation against it."""

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
    """The parameters of a function, compiled once when it becomes a tool.

    Raises `ConfigurationError` if a parameter has no type or a type without a JSON Schema.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.context_name, self._model = _model_of(function, name)
        self.schema = _schema(self._model)
        self.check: Callable[[dict[str, Any]], BaseModel] = self._model.__pydantic_validator__.validate_python
        """Returns arguments as a model. Raises `ValidationError`, a `ValueError`; see `explained`."""


def explained(error: ValueError) -> ToolArgumentsError:
    """Return the error of a check as the model reads it: it names the parameter."""
    problems = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    return ToolArgumentsError("; ".join(map(_problem, problems)) or str(error))


def _model_of(function: Callable[..., Any], name: str) -> tuple[str | None, type[BaseModel]]:
    """Return the name of the context parameter, if any, and a pydantic model of the other parameters."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"tool {name!r}: {error}; define the types of its parameters at module level"
        ) from None
    context_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(
                f"tool {name!r}: parameter {str(parameter)!r} has no JSON Schema; use named parameters with a type"
            )
        if parameter.name not in hints:
            raise ConfigurationError(f"tool {name!r}: parameter {parameter.name!r} has no type; annotate it")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], Field(default))
    try:
        return context_name, create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    except PydanticSchemaGenerationError as error:
        kind = str(error).split(". ", 1)[0]
        raise ConfigurationError(f"tool {name!r}: {kind}; use types that have a JSON Schema") from None


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _problem(error: Any) -> str:
    path = ".".join(str(step) for step in error["loc"])
    return f"{path}: {error['msg']}" if path else str(error["msg"])
