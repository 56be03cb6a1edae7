"""The port of all tools: `Tool`, the values that a tool returns, and `ToolContext`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, get_args, overload

from ..errors import ConfigurationError, ToolArgumentsError
from ..events import RunResult
from ..messages import Media, Message, Retain, ToolSpec
from ..number_checks import check_amount
from ..records import record
from ..scope import Scope
from ..usage import Tokens
from .progress import Progress

if TYPE_CHECKING:
    from .ask_settings import AskSettings
    from .schema import JsonSchema

Effect = Literal["read", "idempotent", "once"]
"""The effect of running a call a second time. `read`: none, the tool only looks. `idempotent`: none, because the
receiver recognizes the call by its key. `once`: the effect would happen twice, so the engine never runs it again; after
a crash it asks the tool's `probe`, or reports the outcome as unknown."""

T = TypeVar("T")

DEFAULT_TIMEOUT = 60.0
"""Default time limit of a tool call, in seconds."""
DEFAULT_MAX_BYTES = 16_000_000
"""Default size limit of a tool's result, in bytes."""


@record
class ToolResult:
    """A result with more than its content. Any other return value of a tool is the content of its result."""

    content: Any
    """Result for the model: text as it is, other values as JSON."""
    data: Any = None
    """Structured result for the product, in the `ToolDone` event and in the run's result. It is never sent to the
    model."""
    summary: str | None = None
    """Replacement for the content once it has left the view, and in the stored history of a `once` result."""
    media: tuple[Media, ...] = ()
    """Images and documents for the model, next to the content."""
    stored: bool = True
    """False for a result that must not be kept: the model reads it in this run, and the run can be resumed with it. No
    observer sees it, and after the run, the store and `RunResult.data` do not have it. This does not apply to text that
    the tool has streamed."""
    ends_run: bool = False
    """Whether the run ends after this step, with the content as its answer. The other calls of the step run, and the
    first such result in the order of the calls counts. A result that is not `stored` ends the run with the model's last
    text. A call in the background or outside a turn does not end the run."""


@record
class Pending:
    """The return value of a tool whose result arrives from outside.

    The call waits for an answer under its key (`ToolContext.key`), and the run is suspended when it has nothing else to
    do. Only a tool that declares `remote=True` may return it.
    """

    seconds: float | None = None
    """Time until the call fails; None: no deadline."""
    note: str = ""
    """Description of what the call waits for, shown to people."""
    target: str = ""
    """The target of a fleet that does the work; empty if the product answers with `Runtime.resolve`."""
    task: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The work for the target, as JSON."""

    def __post_init__(self) -> None:
        check_amount("Pending", "seconds", self.seconds, "seconds above 0", optional=True)


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
    """Letters, digits, `_`, `-` and `.`, at most 64 characters. No provider accepts a dot in a name, so the model sees
    `data_search` for `data.search`; hooks, events, records and policies see the tool's own name."""
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; its type is `object`."""
    selection_rule: str = ""
    """When to choose this tool; part of the system prompt."""
    counts_as_iteration: bool = True
    """Whether a call counts against the agent's limit of tool calls."""
    timeout: float | None = DEFAULT_TIMEOUT
    """Time limit in seconds; None: no limit."""
    retain: Retain = "window"
    """Retention of the result in the model's view."""
    max_tokens: int | None = None
    """Largest result in tokens; a longer one is cut in the middle. None: the limit of the chat's `Retention`."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """Largest result in bytes, before its tokens are counted or anything is stored. The middle of a longer text is left
    out; larger structured data (`ToolResult.data`) is dropped, with a `Notice`."""
    effect: Effect = "once"
    """Effect of a second run. The default is the safe one; declare `read` or `idempotent` where it applies."""
    remote: bool = False
    """Whether the tool may return `Pending`: its result arrives from outside, possibly before the tool returns."""
    target: str = ""
    """The target of a fleet whose processes run the call; empty for the process of the run. The processes have the tool
    in `Runtime([...])`. The run is suspended meanwhile, so it needs a store. `timeout` limits the time from the call to
    its result, including the wait for a free process, and also the time that the tool runs."""
    interruptible: bool = True
    """Whether cancelling the call ends its work; False for a function that runs in a thread."""
    shown: bool = False
    """Whether the user sees the result itself, so that the model must not repeat it."""
    exclusive: bool = False
    """Whether a call runs alone: after the turn's calls before it have ended, and before those after it begin."""
    background: bool = False
    """Whether a call returns a handle at once, and its result follows in a message. For `idempotent` tools whose
    validated arguments are JSON values; the run does not end before the result is delivered. `timeout` does not apply.
    A call outside a turn (`Work.call`) waits for the result."""
    takes_cards: bool = False
    """Whether the model may name earlier results in a call by their ids, as `ToolContext.spawn` takes them. If an agent
    has such a tool, each of its results ends with its id."""

    @property
    def answering_target(self) -> str:
        """The target whose processes answer each call; empty if none does, or if it depends on the call."""
        return self.target

    @property
    def sub_agent(self) -> tuple[Any, Any] | None:
        """The agent that each call runs, and the registry that replaces its tools; None: no agent, or any."""
        return None

    async def should_use(self, context: ToolContext) -> bool:
        """Return whether this user may use the tool now; if not, the call fails with `TOOL_NOT_ENABLED`."""
        return True

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Return the arguments in the form that `execute` takes, or an awaitable of them.

        Expensive checks run in a worker process with limits of time and memory. Raises `ToolArgumentsError`, naming the
        argument, if they do not match the schema.
        """
        return self.schema.validate(arguments)

    def with_presets(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return *arguments* with the values of `preset`, as JSON values, for a process of another target."""
        return arguments

    @abstractmethod
    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Execute the call; return a value, an awaitable of one, or an async iterator.

        The items of an iterator are streamed as they arrive, and the last one is the result. Raise `ToolError` to
        choose the error text for the model; of any other exception, the model reads the type and the text. The run
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
        return ToolSpec(self.name.replace(".", "_"), self.description, self.parameters)

    @cached_property
    def schema(self) -> JsonSchema:
        """The compiled schema. Raises `ConfigurationError` if it refers to another document."""
        from .schema import JsonSchema  # noqa: PLC0415 - function tools validate with pydantic instead

        return JsonSchema(self.parameters, f"tool {self.name!r}", "arguments", ToolArgumentsError)


_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
_DEEPEST = 100
"""Levels of lists and objects in a schema. Validators and encoders are recursive, and fail at about 170."""
_MANY = 1_000
"""Parts of a level of a schema from which on a definition that is used twice is looked into once."""


def check_tool(tool: object) -> None:
    """Raise `ConfigurationError` if *tool* is not a `Tool` or one of its settings is invalid."""
    if not isinstance(tool, Tool):
        raise ConfigurationError(f"{tool!r:.80} is not a Tool; put @tool above the function")
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"invalid tool name {name!r}: use 1 to 64 letters, digits, '_', '-' and '.'")
    for setting, kind, wanted in (
        ("description", str, "text"),
        ("parameters", dict, "a JSON Schema"),
        ("remote", bool, "True or False"),
        ("exclusive", bool, "True or False"),
        ("background", bool, "True or False"),
        ("target", str, "the name of a target, or an empty text"),
    ):
        value = getattr(tool, setting, None)
        if not isinstance(value, kind):
            raise ConfigurationError(f"tool {name!r}: invalid {setting} {value!r:.80}: use {wanted}")
    if _is_deeper(tool.parameters, _DEEPEST):
        raise ConfigurationError(f"tool {name!r}: its schema has more than {_DEEPEST} levels; use a flatter one")
    timeout = tool.timeout
    if timeout is not None and (not isinstance(timeout, int | float) or not timeout > 0):
        raise ConfigurationError(f"tool {name!r}: invalid timeout {timeout!r}: use seconds above 0, or None")
    _check_effect(tool)
    if tool.retain not in get_args(Retain):
        raise ConfigurationError(
            f"tool {name!r}: invalid retain {tool.retain!r}: use 'once', 'window', 'newest' or 'pin'"
        )
    if tool.max_tokens is not None and (not isinstance(tool.max_tokens, int) or tool.max_tokens < 1):
        raise ConfigurationError(
            f"tool {name!r}: invalid max_tokens {tool.max_tokens!r}: use an integer above 0, or None"
        )
    if not isinstance(tool.max_bytes, int) or tool.max_bytes < 1:
        raise ConfigurationError(f"tool {name!r}: invalid max_bytes {tool.max_bytes!r}: use an integer above 0")


def _is_deeper(value: object, most: int) -> bool:
    """Return whether *value* has more than *most* levels of lists and objects in each other."""
    level = [value]
    for _ in range(most + 1):
        inner: list[object] = []
        for each in level:  # comparing classes costs no call, and each run registers its sub-agents
            if each.__class__ is dict:
                inner += each.values()
            elif each.__class__ is list or each.__class__ is tuple:
                inner += each
        if not inner:
            return False
        level = inner if len(inner) < _MANY else [*{id(part): part for part in inner}.values()]
    return True


def _check_effect(tool: Tool) -> None:
    if tool.effect not in get_args(Effect):
        raise ConfigurationError(
            f"tool {tool.name!r}: invalid effect {tool.effect!r}: use 'read', 'idempotent' or 'once'"
        )
    if tool.background and (tool.effect != "idempotent" or tool.remote or tool.target):
        raise ConfigurationError(
            f"tool {tool.name!r}: background=True needs effect='idempotent', remote=False and no target"
        )
    if tool.target:
        from ..targets import check_target  # noqa: PLC0415 - few tools have a target

        check_target(tool.target)


class Work(ABC):
    """Work outside the conversation: questions to a model and calls of the run's tools, for hooks and tools.

    Each question and each call is an operation: recorded, budgeted, retried and rate-limited like those of a turn, and
    booked however it ends. If a hook or a tool runs again after a crash, the same questions and calls return their
    recorded answers and results.
    """

    __slots__ = ()

    @overload
    async def ask(
        self, prompt: str | Sequence[Message], *, output_type: None = None, **settings: Unpack[AskSettings]
    ) -> str: ...

    @overload
    async def ask(
        self, prompt: str | Sequence[Message], *, output_type: type[T], **settings: Unpack[AskSettings]
    ) -> T: ...

    @overload
    async def ask(
        self, prompt: str | Sequence[Message], *, output_type: object, **settings: Unpack[AskSettings]
    ) -> Any: ...

    async def ask(
        self, prompt: str | Sequence[Message], *, output_type: Any = None, **settings: Unpack[AskSettings]
    ) -> Any:
        """Ask a model, without tools, and return its text.

        *prompt* is the question, or the messages of a conversation that ends with it. With *output_type* (a pydantic
        model, dataclass, TypedDict, union, list or JSON Schema), return the validated value; after an invalid answer,
        the model is asked again up to twice, with the error. `AskSettings` describes the *settings*.

        Raises `BudgetError`; `ProviderError` if no model answered, `ProviderTimeoutError` after *seconds*; and
        `InvalidOutputError` if the last answer is invalid.
        """
        return await self._ask(prompt, output_type, settings)

    @abstractmethod
    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call a tool of the run as a turn would, and return its result.

        The arguments are validated, `authorize_tool_call` decides, and the effect, the time limit and the events are
        the tool's own. A `once` call that a crash interrupted does not run again. The content of the result is the
        whole text for the model.

        Raises `ToolError`, with the text that the model would read, if the call fails or is denied. Outside a turn, a
        call cannot wait for an answer from outside, so calls that need an approval and calls of remote tools are
        refused.
        """

    @abstractmethod
    async def _ask(self, prompt: str | Sequence[Message], output_type: Any, settings: AskSettings) -> Any:
        """Implement `ask`."""


class ToolContext(Work):
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
    durable: bool
    """Whether the run has a store, so that a call may wait for a result from outside."""

    @abstractmethod
    async def spawn(
        self,
        agent: Any,
        task: str | Callable[[], Awaitable[str]],
        *,
        tools: Iterable[Tool] | None = None,
        tool_call_limit: int | None = None,
        cards: Sequence[str] = (),
    ) -> RunResult:
        """Run a sub-agent on *task* and return its result.

        *agent* is an `AgentConfig`; *tools*, a registry or a list of tools, replaces its own. If *task* is a function,
        it is called when the sub-agent starts, but not again when the call is repeated. *cards* are ids of earlier
        results of the run, which the sub-agent is given whole (see `Tool.takes_cards`). The sub-agent's events are in
        the parent's stream as they happen; its usage and tool calls are added to the parent's, even if it fails or is
        cancelled. Raises `RunError` if it fails, and `ToolError`, which names the ids that exist, for an unknown id.
        """

    @abstractmethod
    def add_usage(self, *, provider: str, model: str, tokens: Tokens | None) -> None:
        """Book a model call that the tool made itself, without `ask`; *tokens* is None if they are unknown."""

    @abstractmethod
    def shared(self, factory: Callable[[], T]) -> T:
        """Return state that the tools of a run and of its sub-agents share; *factory* creates it at first use.

        Equal factories share one state. It is lost when the run or its process ends.
        """

    @abstractmethod
    def recall(self, handle: str = "", query: str = "") -> str | None:
        """Return the full text that was cut, reduced or summarized under *handle*; None if the handle is unknown.

        With *query*, return the best-matching passages of that text, or of all content that has left the view.
        """

    @abstractmethod
    def truncate(self, text: str, reserve: int = 0) -> str:
        """Return the start of *text* that fits the result of this call, less *reserve* tokens.

        Of a longer result, the engine leaves out the middle.
        """

    @abstractmethod
    def stream(self, content: str) -> None:
        """Show a piece of the result to the consumer before the call ends. Callable from any thread."""

    @abstractmethod
    def emit(self, name: str, data: Any = None) -> None:
        """Send the consumer a `CustomEvent` with *data* that JSON can represent. Callable from any thread.

        Raises `ConfigurationError` if it cannot, or if the data are larger than 64 KiB.
        """
