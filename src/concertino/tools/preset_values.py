"""`preset`: a tool with values that the product sets."""

from __future__ import annotations

import copy
import os
from collections.abc import Awaitable, Mapping
from typing import Any

from ..errors import ConfigurationError, ToolError
from .base import Tool, ToolContext


def preset(
    tool: Tool,
    *,
    defaults: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Tool:
    """Return a copy of *tool* that sets some of its parameters.

    *defaults* apply if a call leaves the parameter out. *fixed* values always apply: the model does not see these
    parameters, and values that it writes for them are replaced. Hooks see the values of both. If the tool runs in a
    process of another target, the values are part of the call, so they must be JSON.

    *environment* maps string parameters to names of environment variables. The process that runs the tool reads them
    each time. Neither the model nor hooks see the values, and they are not stored. The call fails if a variable is not
    set.

    Raises `ConfigurationError` for an unknown parameter, a parameter with two settings, and a parameter of
    *environment* that is not a string.
    """
    defaults, fixed, environment = dict(defaults or {}), dict(fixed or {}), dict(environment or {})
    _check(tool, defaults, fixed, environment)
    known = tool.parameters.get("properties", {})

    def without_variables(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in arguments.items() if name not in environment}

    def with_presets(arguments: dict[str, Any]) -> dict[str, Any]:
        return tool.with_presets(without_variables({**defaults, **arguments, **fixed}))

    def validate(arguments: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        # A process that hands the call over may lack the variables; the tool does not run there.
        variables = {name: os.environ.get(variable, "") for name, variable in environment.items()}
        checked = tool.validate({**defaults, **arguments, **fixed, **variables})
        return without_variables(checked) if isinstance(checked, dict) else later(checked)

    async def later(checked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        return without_variables(await checked)

    def execute(arguments: dict[str, Any], context: ToolContext) -> Any:
        return tool.execute({**arguments, **_values(tool.name, environment)}, context)

    made = copy.copy(tool)
    for cached in ("spec", "schema"):
        vars(made).pop(cached, None)
    hidden = {*fixed, *environment}
    shown = {name: form for name, form in known.items() if name not in hidden}
    for name in defaults.keys() & shown.keys():
        shown[name] = {**shown[name], "default": defaults[name]}
    required = [name for name in tool.parameters.get("required", ()) if name not in {*defaults, *hidden}]
    made.parameters = {**tool.parameters, "properties": shown, "required": required}
    vars(made).update(validate=validate, with_presets=with_presets)
    if environment:
        vars(made).update(execute=execute)
    return made


def _check(tool: Tool, defaults: dict[str, Any], fixed: dict[str, Any], environment: dict[str, str]) -> None:
    known = tool.parameters.get("properties", {})
    if unknown := (defaults.keys() | fixed.keys() | environment.keys()) - known.keys():
        names = ", ".join(known) or "none"
        raise ConfigurationError(f"preset: tool {tool.name!r} has no parameter {min(unknown)!r}; it has: {names}")
    settings = (defaults, fixed, environment)
    if twice := {name for name in known if sum(name in setting for setting in settings) > 1}:
        raise ConfigurationError(f"preset: parameter {min(twice)!r} of tool {tool.name!r} is set twice: choose one")
    for name in environment:
        if known[name].get("type") != "string":
            raise ConfigurationError(
                f"preset: parameter {name!r} of tool {tool.name!r} cannot come from an environment variable: "
                "it is not a string; use fixed"
            )


def _values(tool: str, environment: dict[str, str]) -> dict[str, str]:
    """Return the values of the variables. Raises `ToolError` if one is not set."""
    if missing := [variable for variable in environment.values() if variable not in os.environ]:
        raise ToolError(f"{tool} cannot run here: the environment variable {missing[0]} is not set in its process")
    return {name: os.environ[variable] for name, variable in environment.items()}
