"""Events: all that a run lets its consumer see. A closed union of pure values.

Each event names its run, the path of the agent it comes from (`supervisor/researcher-2`) and the content index,
which never goes back: a consumer may order what it shows by it.

Treat them as frozen. They are not declared so because that makes an event four times as dear, and there are several in
every step and one for each delta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .messages import AssistantMessage, Message, ToolCall
from .usage import UsageRecord

RunStatus = Literal["completed", "failed", "cancelled"]
NoticeCode = Literal["user_message_cut", "context_trimmed", "tool_not_enabled", "limit_reached"]


@dataclass(slots=True)
class Event:
    """What all events carry."""

    run_id: str
    agent_path: str
    index: int
    """The content index."""


@dataclass(slots=True)
class RunStarted(Event):
    """A run, of the first agent or of a sub-agent, has begun."""

    agent: str
    task: str
    """The user's message, or what the parent asked for."""
    parent_call: str | None = None
    """The tool call of the parent that this run belongs to."""


@dataclass(slots=True)
class StepStarted(Event):
    """The model is about to be asked."""

    step: int
    """From 1."""
    model: str


@dataclass(slots=True)
class TextDelta(Event):
    """A piece of the model's answer."""

    text: str


@dataclass(slots=True)
class ReasoningDelta(Event):
    """A piece of the model's reasoning."""

    text: str


@dataclass(slots=True)
class ToolCallDelta(Event):
    """A piece of a call's arguments, while the model is still writing them."""

    call_id: str
    name: str
    arguments: str


@dataclass(slots=True)
class TurnCompleted(Event):
    """The model's whole answer of one step."""

    message: AssistantMessage


@dataclass(slots=True)
class ToolsSelected(Event):
    """The calls that are about to run."""

    calls: tuple[ToolCall, ...]


@dataclass(slots=True)
class ToolStarted(Event):
    """A tool begins."""

    call_id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ToolProgress(Event):
    """A tool has news of its work: one serializable step, begun, added to, or ended."""

    call_id: str
    name: str
    step: dict[str, Any]
    """`id`, `name`, `icon`, `parts`, `ended`; the same `id` replaces what was shown before."""


@dataclass(slots=True)
class ToolStreamed(Event):
    """A piece of a tool's result, as it comes."""

    call_id: str
    name: str
    content: str


@dataclass(slots=True)
class ToolDone(Event):
    """A tool has ended well."""

    call_id: str
    name: str
    content: str
    """The result as the model will read it."""
    data: Any = None
    """The tool's own structured result, for the product; never sent to the model."""


@dataclass(slots=True)
class ToolFailed(Event):
    """A tool has ended badly; the run goes on and the model reads the error."""

    call_id: str
    name: str
    error: str
    """Shortened; `TOOL_NOT_ENABLED` when `should_use` said no."""


@dataclass(slots=True)
class UsageRecorded(Event):
    """An attempt has been booked."""

    record: UsageRecord


@dataclass(slots=True)
class Notice(Event):
    """The engine did something that the user should know of."""

    code: NoticeCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended, and all that it used."""

    run_id: str
    agent_path: str
    status: RunStatus
    text: str
    """The answer; for a run that did not complete, what there was of it."""
    content_index: int
    steps: int
    tool_calls: dict[str, int]
    """How many tools were called, by agent path, sub-agents included."""
    usage: tuple[UsageRecord, ...] = field(repr=False)
    """One record for each attempt, sub-agents included, in the order of booking."""
    data: dict[str, Any]
    """By tool name, the structured result of its last call in this run."""
    messages: tuple[Message, ...] = field(repr=False)
    """What this run added to the conversation, from the user's message on: the history of the next run."""
    error: str | None = None

    @property
    def tool_call_count(self) -> int:
        """All tool calls of the run and of its sub-agents."""
        return sum(self.tool_calls.values())


@dataclass(slots=True)
class RunEnded(Event):
    """The run is over; nothing of it follows."""

    result: RunResult


RunEvent = (
    RunStarted
    | StepStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | TurnCompleted
    | ToolsSelected
    | ToolStarted
    | ToolProgress
    | ToolStreamed
    | ToolDone
    | ToolFailed
    | UsageRecorded
    | Notice
    | RunEnded
)
"""Every event there is: match on it and end with `assert_never`."""
