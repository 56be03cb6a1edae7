"""What hooks and steps return: small typed values that the engine acts on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..messages import AssistantMessage, Message, ToolCall, ToolChoice

NoCallsReason = Literal["NO_CALLS_GENERATED", "LIMIT_REACHED", "TOOLS_DISABLED"]
"""Why `on_no_tool_calls` is asked: the model called nothing; the limit of calls is reached; a called tool is not
enabled for this user."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Take another step."""

    messages: tuple[Message, ...] = ()
    """Put at the end of the conversation first."""
    tool_choice: ToolChoice | None = None
    """For the next step only."""

    def __post_init__(self) -> None:
        if self.messages:
            _require_messages(self, self.messages)


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run well."""

    text: str | None = None
    """The answer; None: what the model said last."""

    def __post_init__(self) -> None:
        if self.text is not None and not isinstance(self.text, str):
            raise TypeError(f"Finish takes text, not {self.text!r:.80}")


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run badly."""

    error: str

    def __post_init__(self) -> None:
        if not isinstance(self.error, str):
            raise TypeError(f"Fail takes text, not {self.error!r:.80}")


StepOutcome = GoOn | Finish | Fail
"""How a step ends. The engine matches on it; a wait for an outside result will be its fourth member."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's answer, as the agent reads it."""

    message: AssistantMessage
    """What goes into the conversation."""
    calls: tuple[ToolCall, ...]
    """The tools to run. A call that is not in `message` is answered by a user message instead of a tool message, so
    that the conversation stays one that every provider accepts."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model reads why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Special:
    """What a tool's result changes beyond itself."""

    result: str | None = None
    """The model reads this instead."""
    tool_choice: ToolChoice | None = None
    """For the next step only."""
    messages: tuple[Message, ...] | None = None
    """The conversation from now on, without this turn's calls and results, which follow it."""

    def __post_init__(self) -> None:
        if self.result is not None and not isinstance(self.result, str):
            raise TypeError(f"Special takes text as result, not {self.result!r:.80}")
        if self.messages:
            _require_messages(self, self.messages)


@dataclass(slots=True)
class Outcome:
    """How one tool call ended."""

    call: ToolCall
    content: str
    """What the model reads."""
    is_error: bool = False
    data: Any = None
    whole: str | None = None
    summary: str | None = None
    progress: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPolicy:
    """What of a run may be stored. It is applied at one place, where things go to the store."""

    store_text: bool = True
    """The user's message, the model's text and the answer."""
    store_tool_calls: bool = True
    store_tool_results: bool = True
    only_calls: frozenset[str] | None = None
    """Store the calls of these tools alone; None: of all."""
    only_results: frozenset[str] | None = None
    """Store the results of these tools alone; None: of all."""
    except_tools: frozenset[str] = frozenset()
    """Never store calls or results of these."""
    keep_whole_results: bool = False
    """Store use-and-throw results whole instead of their summary, as research agents do."""

    def stores_call(self, tool: str) -> bool:
        """Whether a call of *tool* may be stored."""
        return self.store_tool_calls and _in(self.only_calls, tool) and tool not in self.except_tools

    def stores_result(self, tool: str) -> bool:
        """Whether a result of *tool* may be stored."""
        return self.store_tool_results and _in(self.only_results, tool) and tool not in self.except_tools


def _require_messages(owner: object, messages: object) -> None:
    """Said where the value is made, so that the hook which made it is named."""
    if not isinstance(messages, Sequence) or not all(isinstance(message, Message) for message in messages):
        raise TypeError(f"{type(owner).__name__} takes a tuple of messages, not {messages!r:.80}")


def _in(names: frozenset[str] | None, tool: str) -> bool:
    return names is None or tool in names
