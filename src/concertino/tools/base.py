"""The port of all tools: `Tool`, the values that a tool returns, and `ToolContext`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal, get_args

from ..errors import ConfigurationError, ToolArgumentsError
from ..events import RunResult
from ..messages import Media, Retain, ToolSpec
from ..records import record
from ..scope import Scope
from ..usage import Tokens
from .progress import Progress

Effect = Literal["read", "idempotent", "once"]
"""The effect of running a call a second time. `read`: none, the tool only looks. `idempotent`: none, because the
receiver recognises the call by its key. `once`: the effect would happen twice, so the engine never runs it again; after
a crash it asks the tool's `probe`, or reports the outcome as unknown."""

DEFAULT_TIMEOUT = 60.0
"""Default time limit of a tool call, in seconds."""


@record
class ToolResult:
    """A result with more than content. Any other return value of a tool is its content."""

    content: Any
    """Result for the model: text as it is, other values as JSON."""
    data: Any = None
    """Structured result for the product: in the `ToolDone` event and in the run's result, never sent to the model."""
    summary: str | None = None
    """Replacement for the content once it has left the view, and in the stored history of a `once` result."""
    media: tuple[Media, ...] = ()
    """Images and documents for the model, next to the content."""


@record
class Pending:
    """The return value of a tool whose result arrives from outside.

    The call waits for an answer under its key (`ToolContext.key`), and the run is suspended once it has nothing else to
    do. Only a tool that declares `remote=True` may return it.
    """

    seconds: float | None = None
    """Time until the call fails; None: no deadline."""
    note: str = ""
    """Description of what the call waits for, shown to people."""


@record
class Done:
    """A probe's answer: the call took effect and returned *result*."""

    result: Any = "done"


@record
class NotDone:
    """A probe's answer: the call certainly took no effect and may run."""


class Tool(ABC):
    """A tool that a model may call. `@tool` makes one from a function; subclass this class for more control."""

    name: str
    """Letters, digits, `_` and `-`, at most 64 characters: the form that all providers accept."""
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; its type is `object`."""
    selection_rule: str = ""
    """When to choose this tool; part of the system prompt."""
    counts_as_iteration: bool = True
    """True if a call counts against the agent's limit of tool calls."""
    timeout: float | None = DEFAULT_TIMEOUT
    """Time limit in seconds; None: no limit."""
    retain: Retain = "window"
    """Retention of the result in the model's view."""
    max_tokens: int | None = None
    """Largest result in tokens; a longer one is cut in the middle. None: the limit of the chat's `Retention`."""
    effect: Effect = "once"
    """Effect of a second run. The default is the safe one: declare `read` or `idempotent` where it is true."""
    remote: bool = False
    """True if the tool may return `Pending`: its result arrives from outside, possibly before the tool returns."""
    interruptible: bool = True
    """True if cancelling the call ends its work; false for a function that runs in a thread."""
    shown: bool = False
    """True if the user sees the result itself, so that the model must not repeat it."""

    async def should_use(self, context: ToolContext) -> bool:
        """Return whether this user may use the tool now; if not, the call fails with `TOOL_NOT_ENABLED`."""
        return True

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments in the form that `execute` takes.

        Raises `ToolArgumentsError`, naming the argument, if they do not match the schema.
        """
        error = next(self._validator.iter_errors(arguments), None)
        if error is not None:
            path = ".".join(str(step) for step in error.absolute_path)
            raise ToolArgumentsError(f"{path}: {error.message}" if path else error.message)
        return arguments

    @abstractmethod
    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Do the work; return a value, an awaitable of one, or an async iterator.

        The items of an iterator are streamed as they arrive, and the last one is the result. Raise `ToolError` to
        choose the error text that the model reads; for any other exception it reads the type and the text. The run
        continues in both cases.
        """

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone | None:
        """Return whether the call with this *key* took effect before a crash; None if that is unknown.

        Called for `once` tools only. An exception counts as unknown.
        """
        return None

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters)

    @cached_property
    def _validator(self) -> Any:
        import jsonschema  # noqa: PLC0415 - slow to import, and function tools validate with pydantic instead

        validator = jsonschema.validators.validator_for(self.parameters)
        validator.check_schema(self.parameters)
        return validator(self.parameters)


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_tool(tool: object) -> None:
    """Raise `ConfigurationError` if *tool* is not a `Tool` or one of its settings is invalid."""
    if not isinstance(tool, Tool):
        raise ConfigurationError(f"{tool!r:.80} is not a Tool; put @tool above the function")
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"invalid tool name {name!r}: use 1 to 64 letters, digits, '_' and '-'")
    for setting, kind, wanted in (
        ("description", str, "text"),
        ("parameters", dict, "a JSON Schema"),
        ("remote", bool, "True or False"),
    ):
        value = getattr(tool, setting, None)
        if not isinstance(value, kind):
            raise ConfigurationError(f"tool {name!r}: invalid {setting} {value!r:.80}: use {wanted}")
    timeout = tool.timeout
    if timeout is not None and (not isinstance(timeout, int | float) or not timeout > 0):
        raise ConfigurationError(f"tool {name!r}: invalid timeout {timeout!r}: use seconds above 0, or None")
    if tool.effect not in get_args(Effect):
        raise ConfigurationError(f"tool {name!r}: invalid effect {tool.effect!r}: use 'read', 'idempotent' or 'once'")
    if tool.retain not in get_args(Retain):
        raise ConfigurationError(f"tool {name!r}: invalid retain {tool.retain!r}: use 'once', 'window' or 'pin'")
    if tool.max_tokens is not None and (not isinstance(tool.max_tokens, int) or tool.max_tokens < 1):
        raise ConfigurationError(
            f"tool {name!r}: invalid max_tokens {tool.max_tokens!r}: use an integer above 0, or None"
        )


class ToolContext(ABC):
    """The call that a tool answers, and the services it may use while it runs."""

    __slots__ = ()

    run_id: str
    call_id: str
    """The provider's id of the call. Some providers reuse ids; `key` is unique."""
    key: str
    """The engine's id of the call, the same each time this call runs again: pass it on as the idempotency key."""
    tool: str
    agent_path: str
    scope: Scope
    """The tenant and the user on whose behalf the run works."""
    deps: Any
    """The product's own object from `Resources(deps=...)`."""
    progress: Progress
    """Progress steps of this call."""

    @abstractmethod
    async def spawn(
        self,
        agent: Any,
        task: str,
        *,
        tools: Iterable[Tool] | None = None,
        tool_call_limit: int | None = None,
    ) -> RunResult:
        """Run a sub-agent on *task* and return its result.

        *agent* is an `AgentConfig`; *tools*, a registry or a list of tools, replaces its own. The sub-agent's events
        join the parent's stream as they happen; its usage and its tool calls are added to the parent's, even if it
        fails or is cancelled. Raises `RunError` if it fails.
        """

    @abstractmethod
    def add_usage(self, *, provider: str, model: str, tokens: Tokens) -> None:
        """Book a model call that the tool made itself."""

    @abstractmethod
    def recall(self, handle: str) -> str | None:
        """Return the full text that was cut, reduced or summarised under *handle*; None if the handle is unknown."""

    @abstractmethod
    def truncate(self, text: str, reserve: int = 0) -> str:
        """Return the start of *text* that fits the result of this call, less *reserve* tokens.

        The engine cuts anything longer in the middle.
        """

    @abstractmethod
    def stream(self, content: str) -> None:
        """Show a piece of the result to the consumer before the call ends. Callable from any thread."""

    @abstractmethod
    def emit(self, name: str, data: Any = None) -> None:
        """Send the consumer a `CustomEvent` with *data* that JSON can represent. Callable from any thread.

        Raises `ConfigurationError` if it cannot, or if the data are larger than 64 KiB.
        """
