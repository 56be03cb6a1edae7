"""`@tool`: a Python function becomes a tool."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, overload

from ..errors import ConfigurationError
from ..messages import Retain
from .base import DEFAULT_TIMEOUT, Done, Effect, NotDone, Tool, ToolContext, check_tool
from .threads import threads

_SETTINGS = ("selection_rule", "counts_as_iteration", "timeout", "retain", "max_tokens", "shown", "effect")
Probe = Callable[[str], Awaitable[Done | NotDone | None]]
"""Tells from a call's key whether it took effect; see `Tool.probe`."""


class FunctionTool(Tool):
    """A tool made of a function; see `tool`."""

    def __init__(self, function: Callable[..., Any], name: str, description: str) -> None:
        if inspect.isgeneratorfunction(function):
            raise ConfigurationError(f"tool {name!r} is a plain generator; make it an async one (async def ... yield)")
        self.name = name
        self.description = description
        self.function = function
        from .schema import Arguments  # noqa: PLC0415 - pydantic doubles the time of `import concertino`

        self._arguments = Arguments(function, name)
        self.parameters = self._arguments.schema
        self.asks: Probe | None = None
        self._is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        self.interruptible = self._is_async

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `Tool.validate`."""
        return self._arguments.validate(arguments)

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone | None:
        """See `Tool.probe`; the function that was given as `@tool(probe=...)` answers."""
        return None if self.asks is None else await self.asks(key)

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the function; a plain one in a thread."""
        if self._arguments.context_name is not None:
            arguments = {**arguments, self._arguments.context_name: context}
        if self._is_async:
            return self.function(**arguments)
        return threads.run(self.function, **arguments)


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
    shown: bool = False,
    effect: Effect = "once",
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
    """Make a tool of a function: `@tool`, or `@tool(timeout=5, retain="once")` for the settings of `Tool`.

    The parameters' types become the schema (`Annotated[str, Field(description=...)]` describes one), the docstring the
    description. `effect` says what a second run of a call would do ("read", "idempotent", or the careful default
    "once"); *probe*, an async function of a call's key, tells after a crash whether a `once` call took effect. A
    parameter of type `ToolContext` is filled in by the engine and hidden from the model. The function may be plain (it
    runs in a thread), async, or an async generator.

    Raises `ConfigurationError` if a parameter has no type, or one that has no JSON Schema, and for settings that no
    tool has, or that are not what they are declared to be.
    """
    if unknown := settings.keys() - set(_SETTINGS):
        known = ", ".join(("name", "description", "probe", *_SETTINGS))
        raise ConfigurationError(f"a tool has no setting {min(unknown)!r}; there are: {known}")
    if probe is not None and not callable(probe):
        raise ConfigurationError(f"probe is {probe!r:.80}; it must be an async function of a call's key")

    def make(target: Callable[..., Any]) -> FunctionTool:
        if not inspect.isroutine(target):
            raise ConfigurationError(f"{target!r:.80} is no function; @tool goes above one")
        label = name or target.__name__
        made = FunctionTool(target, label, description or inspect.getdoc(target) or label)
        made.asks = probe
        for setting, value in settings.items():
            setattr(made, setting, value)
        check_tool(made)
        return made

    return make if function is None else make(function)
