"""`AgentConfig`: an agent is an object whose methods the engine asks. One method per decision, each with a default."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Union

from ..errors import ToolArgumentsError
from ..events import RunEvent
from ..messages import AssistantMessage, Message, SystemMessage, ToolCall
from ..providers.base import ModelRequest
from ..tools.base import Tool
from ..usage import UsageRecord
from .journal.data_policy import KEEP_ALL, DataPolicy
from .outcome import Allow, Ask, Deny, Finish, GoOn, NoCallsReason, Outcome, Special, StepEnd, Turn
from .run import Run

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    S = DefaultTypeVar("S", default=None)
else:
    S = TypeVar("S")  # a default is for type checkers; at run time it would need a slow import before Python 3.13
T = TypeVar("T")

Maybe: TypeAlias = Union[T, Awaitable[T]]  # noqa: UP007 - `T | ...` is no generic alias before Python 3.12
"""What a hook returns: the value, or an awaitable of it. Every hook may be written with `def` or `async def`."""

FINAL_ANSWER = (
    "The limit of tool calls is reached. Answer the user now, from what the tools have returned so far, and say what "
    "you could not find out."
)


class AgentConfig(Generic[S]):
    """An agent. Subclass it, name it, and override what it decides differently.

    `S` is the type of the agent's own state: a serializable object that `initialize_agent_state` makes for each
    run and that hooks find as `run.agent_state`. The config itself is shared by all runs and must not change.

    A hook that raises, or returns what it may not, ends the run with a `HookError` that names it.
    """

    name: str = "agent"
    """Part of the agent's path in events and records."""
    prompt: str = ""
    """The system prompt; "": the registry's base prompt."""
    tools: Sequence[Tool] = ()
    """The agent's tools, unless a registry is given to the engine."""
    tool_call_limit: int = 25
    """How many tool calls the agent may make before it must answer."""
    use_parallel_tools: bool = True
    """Whether the tools of one turn run side by side."""
    enable_global_context_update: bool = True
    """Whether this agent moves the content index; sub-agents do not."""
    start_tools_early: bool = False
    """Whether a call of a `read` tool starts as soon as its arguments are complete, while the model is still writing.
    Not for an agent that overrides `interpret_response` or `process_tool_calls`: those decide which calls run."""
    allow_prompt_override: bool = False
    """Whether `Chat(system_prompt=...)` replaces the prompt."""

    # -- start ---------------------------------------------------------------------------------------------------

    def initialize_agent_state(self, run: Run[S]) -> Maybe[S]:
        """The agent's own state at the start of a run. Default: None.

        It must be a dataclass, a pydantic model or plain JSON values: it is kept with every step. When a run is taken
        up in another process this is asked again for the type, and the values come from the journal.
        """
        return None  # type: ignore[return-value]  # an agent that declares a state overrides this

    def prepare(self, run: Run[S]) -> Maybe[Sequence[Message]]:
        """Messages to put after the user's before the first step: what was looked up in advance. Default: none."""
        return ()

    # -- each step -----------------------------------------------------------------------------------------------

    def should_continue_loop(self, run: Run[S]) -> Maybe[bool | GoOn]:
        """Whether to take a step. Default: while tools are called and the limit is not passed."""
        return run.state.has_tool_calls and run.state.iteration < run.limits.tool_calls

    def get_model_id(self, run: Run[S]) -> Maybe[str]:
        """The model of the next step, as `provider:name`. Default: the chat's."""
        return run.model_id

    def should_send_tools(self, run: Run[S]) -> Maybe[bool]:
        """Whether the model may call tools in the next step. Default: not on the last one before the limit."""
        return run.state.iteration < run.limits.tool_calls - 1

    def build_request(self, run: Run[S], request: ModelRequest) -> Maybe[ModelRequest]:
        """The request as it is sent. Default: as the engine made it."""
        return request

    def interpret_response(self, run: Run[S], message: AssistantMessage) -> Maybe[Turn]:
        """What the model's answer means. Default: its own tool calls are the calls."""
        return Turn(message, message.tool_calls)

    def on_no_tool_calls(
        self, run: Run[S], reason: NoCallsReason, calls: Sequence[ToolCall]
    ) -> Maybe[bool | GoOn | Finish]:
        """What to do when no tool was called, a limit or budget is reached, or a called tool is not enabled.

        True and `GoOn` take another step, False and `Finish` end the run. Default: without calls, end; at the limit or
        budget, one last step that is told to answer; with a disabled tool, go on: the model has read that it is.
        When a budget is reached, that last step is taken only if there is room for it.
        """
        if reason in ("LIMIT_REACHED", "BUDGET_REACHED"):
            return GoOn(messages=(SystemMessage(FINAL_ANSWER),), tool_choice="none")
        return reason == "TOOLS_DISABLED"

    def process_tool_calls(self, run: Run[S], calls: Sequence[ToolCall]) -> Maybe[Sequence[ToolCall] | Finish]:
        """The calls to run, or the end of the run instead of them. Default: all."""
        return calls

    # -- tools ---------------------------------------------------------------------------------------------------

    def on_tools_selected(self, run: Run[S], calls: Sequence[ToolCall]) -> Maybe[None]:
        """The calls are about to run. Default: nothing."""
        return None

    def preprocess_tool_arguments(self, run: Run[S], call: ToolCall) -> Maybe[dict[str, Any]]:
        """The arguments of a call, before they are checked against the tool's schema. Default: its JSON.

        Raise `ToolArgumentsError` for arguments that cannot be read: the model is told, and the run goes on.
        """
        return read_arguments(call)

    def authorize_tool_call(self, run: Run[S], call: ToolCall, arguments: dict[str, Any]) -> Maybe[Allow | Deny | Ask]:
        """Whether a call with these checked arguments may run, or who must be asked first. Default: yes."""
        return Allow()

    def on_tool_progress(self, run: Run[S], event: RunEvent) -> Maybe[None]:
        """A tool of this agent has started, has news, or has ended. Default: nothing."""
        return None

    def handle_special_tools(self, run: Run[S], call: ToolCall, outcome: Outcome) -> Maybe[Special | None]:
        """What a result changes beyond itself: its text, the next tool choice, the conversation. Default: nothing."""
        return None

    # -- after ---------------------------------------------------------------------------------------------------

    def calculate_usage(self, run: Run[S], record: UsageRecord) -> Maybe[UsageRecord]:
        """The record as it is booked; its id stays. Default: as the provider reported it."""
        return record

    def after_step(self, run: Run[S], outcome: StepEnd) -> Maybe[StepEnd]:
        """How the step ends. Default: as the engine sees it."""
        return outcome

    def conclude(self, run: Run[S], text: str) -> Maybe[str]:
        """The answer, when the loop has ended. Default: what the model said last."""
        return text

    def get_data_policy(self) -> Maybe[DataPolicy]:
        """What of a run may be kept, in the store and in every other sink. Default: everything."""
        return KEEP_ALL


def read_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of *call* as the model wrote them. No text at all means no arguments.

    Raises `ToolArgumentsError` if the text is no JSON object.
    """
    text = call.arguments.strip()
    if not text:
        return {}
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise ToolArgumentsError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ToolArgumentsError(f"the arguments must be a JSON object, not {type(arguments).__name__}")
    return arguments
