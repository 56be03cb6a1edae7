"""`preset`: a tool with values that the product sets."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Mapping
from typing import Any

from ..errors import ConfigurationError
from .base import Tool


def preset(tool: Tool, *, defaults: Mapping[str, Any] | None = None, fixed: Mapping[str, Any] | None = None) -> Tool:
    """Return *tool* with values of some parameters, which may come from environment variables or a file.

    A parameter of *defaults* has that value in a call that leaves it out. A parameter of *fixed* always has its value:
    the model does not see it, and a value that the model writes all the same is replaced. A tool gets secrets from
    `Resources(deps=...)` instead, since hooks see the values of parameters. The values are part of a call that
    a process of another target runs, so they must be JSON there.

    Raises `ConfigurationError` for a parameter that the tool does not have.
    """
    defaults, fixed = dict(defaults or {}), dict(fixed or {})
    known = tool.parameters.get("properties", {})
    if unknown := (defaults.keys() | fixed.keys()) - known.keys():
        names = ", ".join(known) or "none"
        raise ConfigurationError(f"preset: tool {tool.name!r} has no parameter {min(unknown)!r}; it has: {names}")

    def with_presets(arguments: dict[str, Any]) -> dict[str, Any]:
        return tool.with_presets({**defaults, **arguments, **fixed})

    def validate(arguments: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        return tool.validate({**defaults, **arguments, **fixed})

    made = copy.copy(tool)
    for cached in ("spec", "schema"):
        vars(made).pop(cached, None)
    shown = {name: form for name, form in known.items() if name not in fixed}
    for name in defaults.keys() & shown.keys():
        shown[name] = {**shown[name], "default": defaults[name]}
    required = [name for name in tool.parameters.get("required", ()) if name not in {*defaults, *fixed}]
    made.parameters = {**tool.parameters, "properties": shown, "required": required}
    vars(made).update(validate=validate, with_presets=with_presets)
    return made
