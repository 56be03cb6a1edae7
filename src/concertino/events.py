"""Events: all that a run lets its consumer see. A closed union of pure values.

Each event names its run, the path of the agent it comes from (`supervisor/researcher-2`) and the content index,
which never goes back: a consumer may order what it shows by it.

Treat them as frozen. They are not declared so because that makes an event four times as dear, and there are several in
every step and one for each delta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .context_state import ContextReport, ContextState
from .messages import AssistantMessage, Message, ToolCall
from .usage import UsageRecord
from .waits import Wait, WaitKind

RunStatus = Literal["completed", "failed", "cancelled", "suspended"]
"""`suspended`: it waits for outcomes from outside, and goes on when it is resumed. The others are ends."""
NoticeCode = Literal[
    "user_message_cut",
    "context_trimmed",
    "tool_not_enabled",
    "limit_reached",
    "budget_reached",
    "outcome_unknown",
    "not_sent",
    "summary_failed",
    "context_not_taken",
    "history_mended",
]


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
    resumed: bool = False
    """Whether it was taken up from its journal, in the middle."""


@dataclass(slots=True)
class StepStarted(Event):
    """The model is about to be asked."""

    step: int
    """From 1."""
    model: str


@dataclass(slots=True)
class AttemptFailed(Event):
    """A model could not be asked, and is asked again, or another one is. What was shown of its answer is void."""

    model: str
    error: str
    next_model: str
    seconds: float
    """Until the next attempt."""


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
    """The whole result. What the model reads of it may be less: a long one is cut."""
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
class CallWaiting(Event):
    """A call waits for somebody outside: for an approval before it runs, or for its result."""

    call_id: str
    name: str
    key: str
    """To answer it by."""
    kind: WaitKind
    arguments: str
    """JSON text, as they were checked."""
    who: tuple[str, ...] = ()
    note: str = ""
    seconds: float | None = None
    """Until it expires; None: never."""


@dataclass(slots=True)
class Steered(Event):
    """A message was put into the running agent; it is part of the next request."""

    text: str


@dataclass(slots=True)
class UsageRecorded(Event):
    """An attempt has been booked."""

    record: UsageRecord


@dataclass(slots=True)
class ContextEdited(Event):
    """What is sent of the conversation has become less; what is kept of it has not."""

    reduced: int
    """Tool results that are shown as what stands for them, from now on."""
    summarised: int
    """Messages that a summary stands for."""
    left_out: int
    """Messages that are not shown at all, because they could not be summarised."""
    before: int
    """Tokens of the conversation as it was shown, by the chat's counter."""
    after: int


@dataclass(slots=True)
class CacheMiss(Event):
    """The provider read less from its cache than it should have."""

    model: str
    reason: str
    """`model_changed`, `system_prompt_changed`, `tools_changed`, `settings_changed`, `conversation_replaced`, or
    `provider`, where nothing of ours explains it."""
    expected: int
    """Tokens."""
    cached: int
    """Tokens."""


@dataclass(slots=True)
class Notice(Event):
    """The engine did something that the user should know of."""

    code: NoticeCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedWork:
    """Something that was going on when a run was stopped."""

    agent_path: str
    what: Literal["model", "tool", "hook"]
    name: str
    call_id: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReceipt:
    """What became of all that was going on in a run and its sub-agents when it was stopped."""

    stopped: tuple[StoppedWork, ...] = ()
    """It ended, and had no effect."""
    not_stopped: tuple[StoppedWork, ...] = ()
    """It goes on: it took no notice, or runs in a thread."""
    unknown: tuple[StoppedWork, ...] = ()
    """It was cut short, and may have taken effect or not."""

    @classmethod
    def restored(cls, form: dict[str, Any]) -> StopReceipt:
        """The receipt that `dataclasses.asdict` made *form* of."""
        return cls(**{how: tuple(StoppedWork(**work) for work in works) for how, works in form.items()})


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
    waiting: tuple[Wait, ...] = field(default=(), repr=False)
    """For a suspended run: the open calls, of sub-agents too."""
    receipt: StopReceipt | None = field(default=None, repr=False)
    """For a cancelled run: what became of what was going on."""
    context: ContextState | None = field(default=None, repr=False, compare=False)
    """How the run saw the conversation: for `Chat.context` of the next run. None: the run is read from its record, or
    a hook has replaced the conversation."""
    report: ContextReport | None = field(default=None, repr=False, compare=False)
    """What the run's own requests took, and would have taken untrimmed. None: as for `context`."""

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
    | AttemptFailed
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
    | CallWaiting
    | Steered
    | UsageRecorded
    | ContextEdited
    | CacheMiss
    | Notice
    | RunEnded
)
"""Every event there is: match on it and end with `assert_never`."""
