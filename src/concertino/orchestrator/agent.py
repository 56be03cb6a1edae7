"""`AgentConfig`: an agent as an object with one method per decision, each with a default."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, Union

from ..errors import ConfigurationError, LimitReason, ToolArgumentsError
from ..events import Audience, RunEvent
from ..messages import AssistantMessage, Message, ToolCall
from ..providers.base import ModelRequest
from ..tools.base import Tool
from ..usage import UsageRecord
from .composition import check_deciders
from .journal.data_policy import KEEP_ALL, DataPolicy
from .outcome import CONTINUE, Allow, Ask, Continue, Deny, Fail, Finish, NextStep, Outcome, Special, Turn
from .run import RunContext

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from ..scope import Scope
    from ..waits import Wait

    S = DefaultTypeVar("S", default=None)
else:
    S = TypeVar("S")  # type checkers need the default; at run time it would need a slow import before Python 3.13
T = TypeVar("T")

Maybe: TypeAlias = Union[T, Awaitable[T]]  # noqa: UP007 - `T | ...` is not a generic alias before Python 3.12
"""A hook's return value, or an awaitable of it: a hook may be written with `def` or `async def`."""

_ANSWER_NOW = "Answer the user now with what you have found so far, and state what remains open."
_NO_MORE: dict[LimitReason, str] = {
    "tool_calls": "The limit of tool calls is reached.",
    "all_tool_calls": "The limit of tool calls is reached.",
    "steps": "The limit of steps is reached.",
    "model_calls": "The limit of steps is reached.",
    "seconds": "The time for this task is used up.",
    "hook_seconds": "The time for this task is used up.",
    "budget": "The budget is used up except for a short answer.",
    "tokens": "The budget is used up except for a short answer.",
    "cost": "The budget is used up except for a short answer.",
    "answer": "Your last answer was far too long and was cut off. Be brief.",
    "received": "Your answers were too long. Be brief.",
}


class AgentConfig(Generic[S]):
    """An agent: its settings, and one hook per decision. Subclass it, and override the hooks whose defaults do not fit.

    `S` is the type of the agent's own state, which `initialize_agent_state` creates for each run and hooks read as
    `run.agent_state`. All runs share the agent object, so it must not change.

    A hook that raises or returns a wrong type ends the run with a `HookError` that names the hook. Observers cannot
    fail a run. Raises `ConfigurationError` on construction if a hook is misspelt or has a wrong signature, or if two
    parts of the class define a hook that only one may define. Parts that `__init__` sets are checked when the agent is
    used.
    """

    name: str = "agent"
    """The agent's element of the agent path in events and records."""
    prompt: str = ""
    """The system prompt; empty for the registry's base prompt."""
    tools: Sequence[Tool] = ()
    """The agent's tools, unless the engine is given a registry."""
    parts: Sequence[Part] = ()
    """Parts that bring further tools, prompt sections and hooks; see `Part`."""
    tool_call_limit: int = 25
    """The number of tool calls after which the agent must answer."""
    use_parallel_tools: bool = True
    """Whether the tool calls of one turn run concurrently."""
    enable_global_context_update: bool = True
    """Whether the agent advances the content index, by which displays order content. Sub-agents do not."""
    start_tools_early: bool = False
    """Whether a call of a `read` tool starts as soon as its arguments are complete, while the model is still writing.
    Ignored if the agent overrides `interpret_response` or `process_tool_calls`, because they decide which calls run."""
    audience: Audience = "answer"
    """Intended readers of the text of the agent's turns. For a sub-agent, `answer` counts as `draft`."""
    output_type: Any = None
    """The type of the answer: a pydantic model, a dataclass, a TypedDict, a union or list of these (`Answer | str`
    allows plain text), or a JSON Schema as a dict. The result has the validated value as `output`. None: text."""
    turn_type: Any = None
    """The type of the model's JSON in each turn, for an agent that reads it in `interpret_response` and ends with
    another answer. It is sent like `output_type`; the agent validates the JSON."""
    output_retries: int = 2
    """How often the model is asked again, with the error, after an answer that does not match `output_type`. Then the
    run fails."""
    is_workflow: bool = False
    """Whether the agent runs the steps of a workflow, so that displays can show it differently."""
    allow_prompt_override: bool = False
    """Whether `Chat(system_prompt=...)` replaces the prompt."""

    def __new__(cls, *args: object, **settings: object) -> Self:
        """Create the agent after checking the names and signatures of its hooks, once per class."""
        _check_arguments(cls, args, settings)
        _check_hooks(cls)  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        agent = super().__new__(cls)
        if cls.parts:
            check_parts(agent)
        return agent

    # -- start ---------------------------------------------------------------------------------------------------

    def initialize_agent_state(self, run: RunContext[S]) -> Maybe[S]:
        """Return the agent's own state at the start of a run. Default: None.

        The state must be a dataclass, a pydantic model or plain JSON values: the journal keeps it with every step. A
        resumed run calls this hook for the type and takes the values from the journal.
        """
        return None  # type: ignore[return-value]  # an agent that declares a state overrides this

    def load_tools(self, run: RunContext[S]) -> Maybe[Sequence[Tool]]:
        """Return tools for this run only, such as those of its user. Default: none.

        Called when a run starts, and when a process resumes it. A tool whose name the run already has is ignored.
        """
        return ()

    def build_system_prompt(self, run: RunContext[S], prompt: str) -> Maybe[str]:
        """Return the system prompt, once per run. Default: *prompt*, with the sections of parts, tools and user.

        Every request begins with it, so keep it the same in all turns of a conversation: then providers can cache it.
        """
        return prompt

    def review_input(self, run: RunContext[S], text: str) -> Maybe[str | Finish | Fail]:
        """Return the text of a user's message for the conversation, or end the run. Default: the text as it is.

        Called for the message that starts the run, and for each message that steers it.
        """
        return text

    def prepare(self, run: RunContext[S]) -> Maybe[Sequence[Message]]:
        """Return messages to append after the user's message before the first step. Default: none."""
        return ()

    # -- each step -----------------------------------------------------------------------------------------------

    def should_continue_loop(self, run: RunContext[S]) -> Maybe[NextStep]:
        """Decide whether to take a step. Default: while tools are called and the limit is not exceeded."""
        return CONTINUE if run.state.has_tool_calls and run.state.iteration < run.limits.tool_calls else Finish()

    def answer_without_model(self, run: RunContext[S]) -> Maybe[Turn | None]:
        """Return the turn of this step without a model call; None to call the model. Default: None.

        Its calls are treated like a model's: recorded before they run, authorized, and within the limits, and they may
        wait for an answer from outside. `interpret_response` and `process_tool_calls` are not called for them.
        """
        return None

    def get_model_id(self, run: RunContext[S]) -> Maybe[str]:
        """Return the id (`provider:name`) of the model for the next step. Default: the chat's model."""
        return run.model_id

    def should_send_tools(self, run: RunContext[S]) -> Maybe[bool]:
        """Return whether the model may call tools in the next step. Default: if the chat allows it, until the end."""
        return run.chat.send_tools and run.state.iteration < run.limits.tool_calls - 1

    def build_request(self, run: RunContext[S], request: ModelRequest) -> Maybe[ModelRequest]:
        """Return the request to send. Default: the engine's request, unchanged."""
        return request

    def review_answer(self, run: RunContext[S], message: AssistantMessage) -> Maybe[AssistantMessage | NextStep]:
        """Return the answer for the conversation and the consumer, or decide what happens instead.

        With this hook, no piece of an answer is sent before it returns. Unchanged answers then arrive in pieces,
        changed ones as a whole, and refused ones never. Default: the answer as it is, streamed at once.
        """
        return message

    def interpret_response(self, run: RunContext[S], message: AssistantMessage) -> Maybe[Turn]:
        """Convert the model's answer into a turn. Default: its own tool calls are the calls to run."""
        return Turn(message, message.tool_calls)

    def process_tool_calls(self, run: RunContext[S], calls: Sequence[ToolCall]) -> Maybe[Sequence[ToolCall] | NextStep]:
        """Return the calls to run, or decide what happens instead of running them. Default: all calls."""
        return calls

    # -- what happens next ---------------------------------------------------------------------------------------

    def on_no_tool_calls(self, run: RunContext[S]) -> Maybe[NextStep]:
        """Decide what happens after an answer without tool calls. Default: finish with that answer."""
        return Finish()

    def on_limit(self, run: RunContext[S], reason: LimitReason) -> Maybe[NextStep]:
        """Decide what happens when a limit is reached. Default: one last step in which the model must answer.

        Called once per run, at its first limit; a `Continue` takes one last step. At the limit of a budget, that step
        is taken only if the rest of the budget covers it. A run without an answer ends as `limited`.
        """
        return Continue(prompt=f"{_NO_MORE[reason]} {_ANSWER_NOW}", tool_choice="none")

    def on_tools_disabled(self, run: RunContext[S], calls: Sequence[ToolCall]) -> Maybe[NextStep]:
        """Decide what happens after calls of tools that are not enabled. Default: continue; the model reads why."""
        return CONTINUE

    # -- tools ---------------------------------------------------------------------------------------------------

    def preprocess_tool_arguments(self, run: RunContext[S], call: ToolCall) -> Maybe[dict[str, Any]]:
        """Return the arguments of *call* before they are validated. Default: the parsed JSON.

        Raise `ToolArgumentsError` for arguments that cannot be parsed: the model reads the error and the run continues.
        """
        return read_arguments(call)

    def authorize_tool_call(
        self, run: RunContext[S], call: ToolCall, arguments: dict[str, Any]
    ) -> Maybe[Allow | Deny | Ask]:
        """Decide whether *call* may run with these validated arguments. Default: allow."""
        return Allow()

    def handle_special_tools(self, run: RunContext[S], call: ToolCall, outcome: Outcome) -> Maybe[Special | None]:
        """Return what a result changes: the text for the model, the tool choice, the conversation. Default: None."""
        return None

    # -- after ---------------------------------------------------------------------------------------------------

    def calculate_usage(self, run: RunContext[S], record: UsageRecord) -> Maybe[UsageRecord]:
        """Return the record to book, with the same id. Default: the record as the provider reported it."""
        return record

    def after_step(self, run: RunContext[S], outcome: NextStep) -> Maybe[NextStep]:
        """Decide how the step ends. Default: as the engine decided."""
        return outcome

    def conclude(self, run: RunContext[S], text: str) -> Maybe[str]:
        """Return the final answer after the loop has ended. Default: the model's last text."""
        return text

    def get_data_policy(self) -> Maybe[DataPolicy]:
        """Return the policy for everything that is stored or observed. Default: keep everything."""
        return KEEP_ALL

    # -- observers: a failure is logged and changes nothing ------------------------------------------------------

    def on_tools_selected(self, run: RunContext[S], calls: Sequence[ToolCall]) -> None:
        """Observe the calls that are about to run."""

    def on_tool_progress(self, run: RunContext[S], event: RunEvent) -> None:
        """Observe the events of this agent's tools: start, progress, streamed content and end."""


def read_arguments(call: ToolCall) -> dict[str, Any]:
    """Parse the arguments of *call* as the model wrote them. An empty text means no arguments.

    Raises `ToolArgumentsError` if the text is not a JSON object.
    """
    text = call.arguments.strip()
    if not text:
        return {}
    try:
        arguments = _json_parser()(text)
    except (ValueError, TypeError):  # the standard library also accepts lone surrogates, and its message helps
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ToolArgumentsError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ToolArgumentsError(f"the arguments must be a JSON object, not {type(arguments).__name__}")
    return arguments


@functools.cache
def _json_parser() -> Callable[[str], Any]:
    """Return pydantic's parser, which takes a tenth of the time of the standard library's."""
    from pydantic_core import from_json  # noqa: PLC0415 - slow to import

    return from_json


class Part:
    """A part of an agent: tools, a section of the system prompt, and any hooks of `AgentConfig`.

    Define the hooks that the part decides, with the names and signatures that they have in `AgentConfig`. The hooks of
    all parts and of the agent itself become one decision by the rules in `composition`. All runs of an agent share its
    parts, so they must not change.

    Raises `ConfigurationError` on construction if a hook is misspelt or has a wrong signature.
    """

    name: str = ""
    """The part's name in error messages; empty for the name of its class."""
    prompt: str = ""
    """A section of the system prompt, after the agent's own prompt."""
    tools: Sequence[Tool] = ()

    def __new__(cls, *args: object, **settings: object) -> Self:
        """Create the part after checking the names and signatures of its hooks, once per class."""
        _check_arguments(cls, args, settings)
        _check_hooks(cls)  # type: ignore[arg-type]  # as above
        return super().__new__(cls)

    def on_stopped(self, scope: Scope, waits: Sequence[Wait]) -> None:
        """Observe that a run of *scope* was stopped while it had these *waits*; end work for it elsewhere."""


def _check_arguments(cls: type, args: tuple[object, ...], settings: dict[str, object]) -> None:
    """Raise `ConfigurationError` for arguments that nothing reads: `object.__init__` ignores them."""
    if (args or settings) and cls.__init__ is object.__init__:  # type: ignore[misc]  # compared, not called
        given = ", ".join([f"{name}=" for name in settings] or ["positional arguments"])
        shared = [name for name in settings if name in _SHARED]
        remedy = f"pass Resources({shared[0]}=...)" if shared else "set attributes in a subclass"
        raise ConfigurationError(f"{cls.__name__}({given}...): it takes no arguments; {remedy}")


OBSERVERS = ("on_tools_selected", "on_tool_progress")
"""The methods that see and decide nothing."""
HOOKS = tuple(name for name, value in vars(AgentConfig).items() if inspect.isfunction(value) and name[0] != "_")
"""The names of all hooks and observers."""
_HOOKS = frozenset(HOOKS)
DECISIONS = tuple(name for name in HOOKS if name not in OBSERVERS)
"""The names of the hooks that decide."""


def deciders(config: AgentConfig[Any]) -> dict[str, list[tuple[str, Callable[..., Any]]]]:
    """Return, by hook, who decides it, in order: the parts, then the agent. Each has a label and its method."""
    found: dict[str, list[tuple[str, Callable[..., Any]]]] = {}
    for part in config.parts:
        label = f"part {part.name or type(part).__name__!r}"
        for name in HOOKS:
            if (method := getattr(part, name, None)) is not None:
                found.setdefault(name, []).append((label, method))
    own = _overridden(type(config)) | (vars(config).keys() & _HOOKS)  # type: ignore[arg-type]  # as above
    label = f"agent {config.name!r}"
    for name in own:
        found[name] = [*found.get(name, ()), (label, getattr(config, name))]
    return found


@functools.cache
def _overridden(kind: Any) -> frozenset[str]:
    return frozenset(name for name in HOOKS if getattr(kind, name) is not getattr(AgentConfig, name))


def check_parts(config: AgentConfig[Any]) -> None:
    """Raise `ConfigurationError` if *config* has invalid parts, or several deciders of a single-valued hook."""
    parts = config.parts
    if not isinstance(parts, Sequence) or not all(isinstance(part, Part) for part in parts):
        raise ConfigurationError(f"agent {config.name!r}: invalid parts {parts!r:.80}: use a tuple of Part objects")
    found = deciders(config)
    check_deciders(config.name, {name: [label for label, _ in found[name]] for name in found if name not in OBSERVERS})


_SHARED = ("retry", "fallback", "rate_limits", "retention")
"""Fields of `Resources` that may be mistaken for settings of an agent."""


@functools.cache
def _check_hooks(kind: type[AgentConfig[Any] | Part]) -> None:
    """Raise `ConfigurationError` for a hook that is misspelt or cannot be called, and for a setting of `Resources`."""
    for name, value in inspect.getmembers_static(kind):
        if name in HOOKS:
            _check_signature(kind, name, value)
            _check_inheritance(kind, name)
        elif _is_method(value) and not name.startswith("_") and not hasattr(AgentConfig, name):
            similar = difflib.get_close_matches(name, HOOKS, 1, 0.8)
            if similar:
                raise ConfigurationError(
                    f"{kind.__name__}.{name} is not a hook: rename it to {similar[0]}, or start its name with '_'"
                )
        elif name in _SHARED and not isinstance(value, property):
            raise ConfigurationError(
                f"{kind.__name__}.{name} is not read, since runs share it: pass Resources({name}=...), or begin its "
                "name with '_'"
            )


def _check_inheritance(kind: type, name: str) -> None:
    """Raise `ConfigurationError` if *kind* inherits a hook twice, and one would never be called: each may be a rule."""
    definers = [base for base in kind.__mro__ if name in vars(base) and base is not AgentConfig]
    for other in definers[1:]:
        first = definers[0]
        if not issubclass(first, other) and "__class__" not in _closure(vars(first)[name]):  # it calls no `super()`
            raise ConfigurationError(
                f"{kind.__name__} inherits {name} from {first.__name__} and {other.__name__}, and only the first would "
                f"be called: make them `Part`s and list them in `parts`, or define {name} in {kind.__name__}"
            )


def _closure(function: object) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(function), "__code__", None)  # type: ignore[arg-type]  # any value has no wrapper
    return () if code is None else code.co_freevars


def _is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, staticmethod | classmethod)


def _check_signature(kind: type, name: str, value: Any) -> None:
    wanted = inspect.signature(getattr(AgentConfig, name))
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if not callable(function):
        raise ConfigurationError(f"{kind.__name__}.{name} is {value!r:.80}; it must be a method {name}{wanted}")
    arguments = list(wanted.parameters)[isinstance(value, staticmethod) :]
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise ConfigurationError(f"{kind.__name__}.{name}: {error}; its signature must fit {name}{wanted}") from None
    if name in OBSERVERS and inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"{kind.__name__}.{name} observes and cannot wait: define it with `def`")
