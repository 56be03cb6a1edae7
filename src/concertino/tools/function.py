"""`@tool`, which makes a tool from a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, overload

from ..errors import ConfigurationError
from ..messages import Retain
from .base import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT, Done, Effect, NotDone, Tool, ToolContext, check_tool
from .threads import run_in_thread

_SETTINGS = (
    *("selection_rule", "counts_as_iteration", "timeout", "retain", "max_tokens", "max_bytes", "shown", "effect"),
    "remote",
    "exclusive",
    "target",
)
Probe = Callable[[str], Awaitable[Done | NotDone | None]]
"""Given a call's key, report whether the call took effect; see `Tool.probe`."""


class FunctionTool(Tool):
    """A tool made from a function; see `tool`."""

    def __init__(self, function: Callable[..., Any], name: str, description: str) -> None:
        if inspect.isgeneratorfunction(function):
            raise ConfigurationError(f"tool {name!r} is a sync generator; make it async (async def ... yield)")
        self.name = name
        self.description = description
        self.function = function
        from .arguments import Arguments, explained  # noqa: PLC0415 - pydantic doubles the time of `import concertino`

        self._arguments = Arguments(function, name)
        self._check, self._explained = self._arguments.check, explained
        self.parameters = self._arguments.schema
        self.probe_function: Probe | None = None
        self._is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        self.interruptible = self._is_async

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the converted arguments by parameter; see `Tool.validate`."""
        try:
            checked = self._check(arguments)
        except ValueError as error:
            raise self._explained(error) from None
        return dict(checked.__dict__)  # not `model_dump`, which would turn nested models back into dicts

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone | None:
        """Call the function from `@tool(probe=...)`; see `Tool.probe`."""
        return None if self.probe_function is None else await self.probe_function(key)

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the function, in a thread unless it is async."""
        if self._arguments.context_name is not None:
            arguments = {**arguments, self._arguments.context_name: context}
        if self._is_async:
            return self.function(**arguments)
        return run_in_thread(self.function, **arguments)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    selection_rule: str = "",
    counts_as_iteration: bool = True,
    timeout: float | None = DEFAULT_TIMEOUT,
    retain: Retain = "window",
    max_tokens: int | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    shown: bool = False,
    effect: Effect = "once",
    remote: bool = False,
    exclusive: bool = False,
    target: str = "",
    probe: Probe | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    probe: Probe | None = None,
    **settings: Any,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool from a function: `@tool`, or `@tool(timeout=5, retain="once")` with settings of `Tool`.

    The types of the parameters become the schema (`Annotated[str, Field(description=...)]` describes one); the
    docstring becomes the description. *effect* declares the effect of a second run ("read", "idempotent", or the safe
    default "once"). *probe*, an async function of a call's key, reports after a crash whether a `once` call took
    effect. *remote* allows the function to return `Pending`. With *target*, processes of that target of a fleet run the
    calls. The engine supplies a parameter of type `ToolContext` and hides it from the model. The function may be sync
    (it runs in a thread), async, or an async generator.

    Raises `ConfigurationError` if a parameter has no type or a type without a JSON Schema, or if a setting is unknown
    or invalid.
    """
    if unknown := settings.keys() - set(_SETTINGS):
        known = ", ".join(("name", "description", "probe", *_SETTINGS))
        raise ConfigurationError(f"unknown tool setting {min(unknown)!r}: choose from {known}")
    if probe is not None and not callable(probe):
        raise ConfigurationError(f"invalid probe {probe!r:.80}: use an async function that takes a call's key")

    def make(target: Callable[..., Any]) -> FunctionTool:
        if not inspect.isroutine(target):
            raise ConfigurationError(f"{target!r:.80} is not a function; put @tool above a function")
        label = name or target.__name__
        made = FunctionTool(target, label, description or inspect.getdoc(target) or label)
        made.probe_function = probe
        for setting, value in settings.items():
            setattr(made, setting, value)
        check_tool(made)
        return made

    return make if function is None else make(function)
