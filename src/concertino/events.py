"""Events: everything that a run reports to its consumer, as a closed union of pure values.

Each event names its run, the path of its agent (`supervisor/researcher-2`) and the content index, which never
decreases: a consumer can order its display by it.

Treat events as frozen. They are not declared as such, because a frozen dataclass takes four times as long to create,
and every step creates several, every delta one.
"""

from __future__ import annotations

from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from .context_state import ContextReport, ContextState
from .messages import AssistantMessage, Message, ToolCall
from .records import record
from .usage import UsageRecord
from .waits import Wait, WaitKind

if TYPE_CHECKING:
    from .event_form import event_from_json as event_from_json  # noqa: PLC0414 - exported from here
    from .event_form import event_json as event_json  # noqa: PLC0414
    from .event_form import event_schema as event_schema  # noqa: PLC0414

Audience = Literal["answer", "draft", "internal"]
"""Intended readers of a text. `answer`: the user, as the run's answer. `draft`: work in progress that a front end may
show apart from the answer. `internal`: developers only."""
RunStatus = Literal["completed", "limited", "failed", "cancelled", "suspended"]
"""`limited`: no answer was possible within a limit or a budget; the error names it. `suspended`: the run waits for
answers from outside and continues when it is resumed. The others are final."""
NoticeCode = Literal[
    "user_message_cut",
    "context_trimmed",
    "tool_not_enabled",
    "limit_reached",
    "budget_reached",
    "outcome_unknown",
    "not_sent",
    "summary_failed",
    "context_not_applied",
    "history_repaired",
    "tool_data_dropped",
    "attachments_unread",
    "price_failed",
    "no_store",
    "result_incomplete",
]


@record(frozen=False)
class Event:
    """Base class of all events."""

    run_id: str
    agent_path: str
    index: int
    """The content index."""


@record(frozen=False)
class RunStarted(Event):
    """A run of an agent or a sub-agent began."""

    agent: str
    task: str
    """The user's message, or the task from the parent agent."""
    parent_call: str | None = None
    """Id of the parent's tool call that started this run."""
    resumed: bool = False
    """True if the run was resumed from its journal."""
    workflow: bool = False
    """Whether the agent runs the steps of a workflow (`AgentConfig.is_workflow`)."""
    conversation_id: str = ""
    """The conversation's id, for observers; not part of the JSON form."""
    traceparent: str = ""
    """The trace that the run belongs to (`Chat.traceparent`), for observers; not part of the JSON form."""


@record(frozen=False)
class StepStarted(Event):
    """A step began. Its model call follows, unless the agent supplies the turn itself."""

    step: int
    """Number of the step, from 1."""
    model: str
    """The id of the model; empty for a turn without one."""


@record(frozen=False)
class AttemptFailed(Event):
    """An attempt at a model call failed and will be retried, possibly with another model.

    Discard the deltas of the failed attempt.
    """

    model: str
    error: str
    next_model: str
    seconds: float
    """Delay until the next attempt."""
    attempt: str = ""
    """Id of the failed attempt, as in its deltas and in its usage record."""


@record(frozen=False)
class TextDelta(Event):
    """A piece of a model's text."""

    text: str
    audience: Audience = "answer"
    call_id: str | None = None
    """Id of the tool call whose tool asked the model; None for the text of a turn or of a hook's question."""
    attempt: str = ""
    """Id of the attempt at a model call, as in its usage record. It distinguishes the texts of concurrent calls."""


@record(frozen=False)
class ReasoningDelta(Event):
    """A piece of a model's reasoning."""

    text: str
    audience: Audience = "answer"
    call_id: str | None = None
    """See `TextDelta.call_id`."""
    attempt: str = ""


@record(frozen=False)
class PartialOutput(Event):
    """The part of a typed answer that has arrived so far. Sent for agents with an `output_type`."""

    value: Any
    """Plain JSON, neither complete nor validated; replaces the earlier value. The last string may be cut off."""


@record(frozen=False)
class ToolCallDelta(Event):
    """A piece of a tool call's arguments."""

    call_id: str
    name: str
    arguments: str
    attempt: str = ""


@record(frozen=False)
class TurnCompleted(Event):
    """The model's answer of one step is complete. It replaces the deltas of its attempt.

    The `stop_reason` of its message is "broken" if a stop, a limit or an error cut the answer off.
    """

    message: AssistantMessage
    audience: Audience = "answer"
    attempt: str = ""


@record(frozen=False)
class QuestionAnswered(Event):
    """A model's answer to a question outside the conversation is complete. It replaces the deltas of its attempt."""

    text: str
    audience: Audience = "internal"
    attempt: str = ""


@record(frozen=False)
class ToolsSelected(Event):
    """Tool calls are about to run."""

    calls: tuple[ToolCall, ...]


@record(frozen=False)
class ToolStarted(Event):
    """A tool call began."""

    call_id: str
    name: str
    arguments: str


@record(frozen=False)
class ToolProgress(Event):
    """A progress step of a tool call began, changed or ended."""

    call_id: str
    name: str
    step: dict[str, Any]
    """JSON with `id`, `name`, `icon`, `parts` and `ended`; replaces the earlier step with the same `id`."""


@record(frozen=False)
class RunProgress(Event):
    """A progress step of the agent itself began, changed or ended."""

    step: dict[str, Any]
    """As in `ToolProgress`."""


@record(frozen=False)
class CustomEvent(Event):
    """Data of the product, from a hook or a tool."""

    name: str
    data: Any
    """JSON."""
    tool: str = ""
    """The tool that emitted the data; empty for a hook."""
    call_id: str = ""
    """The call of the tool."""


@record(frozen=False)
class ToolStreamed(Event):
    """A piece of a tool's result."""

    call_id: str
    name: str
    content: str


@record
class MediaDigest:
    """A medium without its content."""

    media_type: str
    name: str
    digest: str
    """`Media.digest`, by which a store keeps the content; empty for an address or a file at the provider."""


@record(frozen=False)
class ToolDone(Event):
    """A tool call succeeded."""

    call_id: str
    name: str
    content: str
    """The full result. The model may read a shortened version."""
    data: Any = None
    """The tool's structured result for the product; never sent to the model."""
    stored: bool = True
    """False if the result must not be kept (`ToolResult.stored`)."""
    media: tuple[MediaDigest, ...] = ()
    """The images and documents of the result."""
    summary: str | None = None
    """Text that a log keeps in place of the `content`, for a result that the model sees in one step only
    (`retain="once"`)."""
    replaces: bool = False
    """Whether the event replaces an earlier event of this call, if there was one, and its pieces: a hook withheld the
    result, or another process repeated the call."""


@record(frozen=False)
class ToolFailed(Event):
    """A tool call failed. The model reads the error, and the run continues."""

    call_id: str
    name: str
    error: str
    """Shortened error message; `TOOL_NOT_ENABLED` if `should_use` returned false."""
    replaces: bool = False
    """See `ToolDone`."""


@record(frozen=False)
class CallWaiting(Event):
    """A tool call waits for an approval, or for its result from outside."""

    call_id: str
    name: str
    key: str
    """Key with which the wait is answered."""
    kind: WaitKind
    arguments: str
    """JSON text of the validated arguments."""
    who: tuple[str, ...] = ()
    note: str = ""
    seconds: float | None = None
    """Time until the wait expires; None: never."""


@record(frozen=False)
class Steered(Event):
    """A message was added to the running conversation; the next request includes it."""

    text: str


@record(frozen=False)
class UsageRecorded(Event):
    """The usage of an attempt was booked."""

    record: UsageRecord
    seconds: float = 0.0
    """Time that the attempt took; 0 for usage that a tool has booked."""
    turn: bool = False
    """Whether the attempt answered a turn; False for a question of a hook or a tool, a summary, and usage of a tool."""


@record(frozen=False)
class ContextEdited(Event):
    """From the next request on, the view of the conversation is shorter; the record is unchanged."""

    reduced: int
    """Number of tool results that are replaced by their summary or an extract."""
    summarized: int
    """Number of messages that are replaced by a summary."""
    left_out: int
    """Number of messages that are left out because no summary of them was available."""
    before: int
    """Tokens of the view before the edit, by the chat's counter."""
    after: int
    """Tokens of the view after the edit."""


@record(frozen=False)
class CacheMiss(Event):
    """The provider read fewer tokens from its cache than expected."""

    model: str
    reason: str
    """`model_changed`, `system_prompt_changed`, `tools_changed`, `settings_changed`, `conversation_replaced`, or
    `provider` if no change in the request explains it."""
    expected: int
    """Tokens that the provider should have read from its cache."""
    cached: int
    """Tokens that it read from its cache."""


@record(frozen=False)
class Notice(Event):
    """A message for the user about something unusual that the engine did."""

    code: NoticeCode
    text: str


@record(frozen=False)
class Voided(Event):
    """Events of this run in the log are void: a crash or a retry undid the work that they reported. Discard them.

    Only the log of a `Runtime` has these events, because only there events have numbers.
    """

    first: int
    """Number of the first void event."""
    last: int
    """Number of the last void event. Events of other runs in between stay valid."""
    attempt: str = ""
    """If not empty, only the deltas of this attempt are void, else all events of the run in this range."""


@record(kw_only=True)
class StoppedWork:
    """A piece of work that was in progress when a run was stopped."""

    agent_path: str
    what: Literal["model", "tool", "hook"]
    name: str
    call_id: str = ""
    effect: str = ""


@record(kw_only=True)
class StopReceipt:
    """The outcome of all work that was in progress in a run and its sub-agents when the run was stopped."""

    stopped: tuple[StoppedWork, ...] = ()
    """Work that ended without an effect."""
    not_stopped: tuple[StoppedWork, ...] = ()
    """Work that continues: it ignored the cancellation, or runs in a thread."""
    unknown: tuple[StoppedWork, ...] = ()
    """Work that was interrupted and may or may not have taken effect."""

    @classmethod
    def restored(cls, form: dict[str, Any]) -> StopReceipt:
        """Restore a receipt from its `dataclasses.asdict` form."""
        return cls(**{how: tuple(StoppedWork(**work) for work in works) for how, works in form.items()})


@record(kw_only=True)
class RunResult:
    """The outcome of a run and its usage."""

    run_id: str
    agent_path: str
    status: RunStatus
    text: str
    """The answer; a partial one if the run did not complete."""
    content_index: int
    steps: int
    tool_calls: dict[str, int]
    """Number of tool calls by agent path, including sub-agents."""
    usage: tuple[UsageRecord, ...] = field(repr=False)
    """One record per attempt, including sub-agents, in the order of booking."""
    data: dict[str, Any]
    """Structured result of each tool's last call in this run, by tool name."""
    messages: tuple[Message, ...] = field(repr=False)
    """Messages that this run added, starting with the user's: append them to the history of the next run."""
    output: Any = None
    """The validated answer of a completed run whose agent has an `output_type`; None otherwise."""
    error: str | None = None
    waiting: tuple[Wait, ...] = field(default=(), repr=False)
    """Open waits of a suspended run, including those of sub-agents."""
    receipt: StopReceipt | None = field(default=None, repr=False)
    """Receipt of a cancelled run."""
    context: ContextState | None = field(default=None, repr=False, compare=False)
    """State of the run's view of the conversation, for `Chat.context` of the next run. None if the result was read from
    the journal, or a hook replaced the conversation."""
    report: ContextReport | None = field(default=None, repr=False, compare=False)
    """Size and cost of the run's own requests, with and without trimming. None in the same cases as `context`."""

    @property
    def tool_call_count(self) -> int:
        """Number of all tool calls, including sub-agents."""
        return sum(self.tool_calls.values())


@record(frozen=False)
class RunEnded(Event):
    """The run ended; no further event of it follows."""

    result: RunResult


RunEvent = (
    RunStarted
    | StepStarted
    | AttemptFailed
    | TextDelta
    | ReasoningDelta
    | PartialOutput
    | ToolCallDelta
    | TurnCompleted
    | QuestionAnswered
    | ToolsSelected
    | ToolStarted
    | ToolProgress
    | RunProgress
    | CustomEvent
    | ToolStreamed
    | ToolDone
    | ToolFailed
    | CallWaiting
    | Steered
    | UsageRecorded
    | ContextEdited
    | CacheMiss
    | Notice
    | Voided
    | RunEnded
)
"""All events: match on them and end with `assert_never`."""


def __getattr__(name: str) -> Any:
    if name not in ("event_from_json", "event_json", "event_schema"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".event_form", __package__), name)  # most programs do not need it
