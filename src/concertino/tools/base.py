"""The port of all tools."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..errors import ConfigurationError, ToolArgumentsError
from ..events import RunResult
from ..messages import Retain, ToolSpec
from ..usage import Tokens
from .progress import Progress

Effect = Literal["read", "idempotent", "once"]
"""What a second run of a call would do. `read`: nothing, it only looks. `idempotent`: nothing either, for the receiver
knows the call by its key. `once`: the same again, so it is never run twice: after a crash its outcome is asked of the
tool's `probe`, or is unknown."""

DEFAULT_TIMEOUT = 60.0
"""Seconds that a tool may take, if it does not say otherwise."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result with more to it than text. A tool that returns anything else returns its content."""

    content: Any
    """What the model reads: text as it is, other values as JSON."""
    data: Any = None
    """For the product: on the `ToolDone` event and in the run's result; never sent to the model."""
    summary: str | None = None
    """What stands for the content once it is no longer sent, and in the stored history of a `once` tool."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What a tool returns whose result comes from outside: the call waits, and the run is suspended when nothing else
    is left to do. Whoever has the result answers under the call's key (`ToolContext.key`)."""

    seconds: float | None = None
    """After which the call has failed; None: it waits for ever."""
    note: str = ""
    """What it waits for, for people."""


@dataclass(frozen=True, slots=True)
class Done:
    """A probe's answer: the call took effect, and this is what it had returned."""

    result: Any = "done"


@dataclass(frozen=True, slots=True)
class NotDone:
    """A probe's answer: the call surely took no effect, and may be run."""


class Tool(ABC):
    """Something that a model may call. `@tool` makes one of a function; subclass this for more."""

    name: str
    """Letters, digits, `_` and `-`, at most 64: what all providers take."""
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; an object."""
    selection_rule: str = ""
    """When to choose this tool: goes into the system prompt."""
    counts_as_iteration: bool = True
    """Whether a call counts against the agent's limit of tool calls."""
    timeout: float | None = DEFAULT_TIMEOUT
    """Seconds; None: no limit."""
    retain: Retain = "window"
    """How long the model sees a result whole."""
    max_tokens: int | None = None
    """Tokens that a result may have; what is longer is cut in the middle. None: as the chat's `Retention` says."""
    effect: Effect = "once"
    """What a second run would do. The default is the careful one: say `read` or `idempotent` where it is true."""
    interruptible: bool = True
    """Whether cancelling the call ends its work; not so for what runs in a thread."""
    shown: bool = False
    """Whether the user sees the result as it is, so that the model must not write it again."""

    async def should_use(self, context: ToolContext) -> bool:
        """Whether this tool may be used now, by this user. No: the call fails with `TOOL_NOT_ENABLED`."""
        return True

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as `execute` wants them. Raises `ToolArgumentsError`, naming the argument."""
        error = next(self._validator.iter_errors(arguments), None)
        if error is not None:
            place = ".".join(str(step) for step in error.absolute_path)
            raise ToolArgumentsError(f"{place}: {error.message}" if place else error.message)
        return arguments

    @abstractmethod
    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Do the work. Returns a value, an awaitable of one, or an async iterator.

        Each item of an iterator is streamed as it comes; the last one is the result. Raise `ToolError` to choose
        the words that the model reads; any other exception is reported to it by type and text. Either way the run
        goes on.
        """

    async def probe(self, key: str, context: ToolContext) -> Done | NotDone | None:
        """Whether the call with this *key*, which a crash interrupted, took effect; None: that cannot be told.

        Asked for `once` tools only. One that raises cannot tell.
        """
        return None

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters)

    @cached_property
    def _validator(self) -> Any:
        import jsonschema  # noqa: PLC0415 - takes as long to import as all of concertino, and few tools need it

        kind = jsonschema.validators.validator_for(self.parameters)
        kind.check_schema(self.parameters)
        return kind(self.parameters)


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_tool(tool: object) -> None:
    """Raise `ConfigurationError` if *tool* is no tool, or lacks what a provider or the engine must have of it."""
    if not isinstance(tool, Tool):
        raise ConfigurationError(f"{tool!r:.80} is no Tool; put @tool above the function")
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"tool name {name!r}: use 1 to 64 letters, digits, '_' and '-'")
    for setting, kind, wanted in (("description", str, "text"), ("parameters", dict, "a JSON Schema")):
        value = getattr(tool, setting, None)
        if not isinstance(value, kind):
            raise ConfigurationError(f"tool {name!r}: {setting} is {value!r:.80}; it must be {wanted}")
    timeout = tool.timeout
    if timeout is not None and (not isinstance(timeout, int | float) or not timeout > 0):
        raise ConfigurationError(f"tool {name!r}: timeout is {timeout!r}; it must be seconds above 0, or None")
    if tool.effect not in get_args(Effect):
        raise ConfigurationError(f"tool {name!r}: effect is {tool.effect!r}; use 'read', 'idempotent' or 'once'")
    if tool.retain not in get_args(Retain):
        raise ConfigurationError(f"tool {name!r}: retain is {tool.retain!r}; it must be 'once', 'window' or 'pin'")
    if tool.max_tokens is not None and (not isinstance(tool.max_tokens, int) or tool.max_tokens < 1):
        raise ConfigurationError(f"tool {name!r}: max_tokens is {tool.max_tokens!r}; it must be a whole number above 0")


if TYPE_CHECKING:
    from .registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who asks. It comes from the product's own session, never from a request's body or a model.

    Raises `ConfigurationError` for what is no text.
    """

    user_id: str = ""
    organization_id: str = ""
    plan: str = ""
    """The name of the user's plan, for the limits."""

    def __post_init__(self) -> None:
        for name in ("user_id", "organization_id", "plan"):
            if not isinstance(value := getattr(self, name), str):
                raise ConfigurationError(f"Session({name}=...) is {value!r:.80}; it must be text")


class ToolContext(ABC):
    """The call that a tool is answering, and what it may do meanwhile."""

    __slots__ = ()

    run_id: str
    call_id: str
    """The provider's id of the call. Some providers use one again: `key` is unique."""
    key: str
    """The engine's id of the call, the same whenever this very call is run again: hand it on as idempotency key."""
    tool: str
    agent_path: str
    session: Session
    deps: Any
    """The product's own object, as it was given to `Chat(deps=...)`."""
    progress: Progress
    """The steps that this call shows."""

    @abstractmethod
    async def spawn(
        self,
        agent: Any,
        task: str,
        *,
        registry: ToolRegistry | None = None,
        tool_call_limit: int | None = None,
    ) -> RunResult:
        """Run a sub-agent: *agent* is an `AgentConfig`, *task* what it is asked.

        Its events go into the parent's stream as they come; its usage and its tool calls roll up, also when it
        fails or is cancelled. Raises `RunError` if it fails.
        """

    @abstractmethod
    def add_usage(self, *, provider: str, model: str, tokens: Tokens) -> None:
        """Book a model call that the tool made by itself."""

    @abstractmethod
    def recall(self, handle: str) -> str | None:
        """The whole of what was cut, reduced or summarised under *handle*; None: there is nothing of that name."""

    @abstractmethod
    def beginning(self, text: str, spare: int = 0) -> str:
        """As much of *text*, from its beginning, as the result of this call may have and *spare* tokens besides. What a
        tool returns beyond that is cut in the middle."""

    @abstractmethod
    def stream(self, content: str) -> None:
        """Show a piece of the result to the consumer before the whole is there. From any thread."""
