"""The JSON forms of requests and answers."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ..operations import OperationState
from ..runtime import WhenBusy
from ..storage.conversation_types import Rating, TurnState
from ..storage.types import StoredState
from ..usage import UsageSource
from ..waits import Remember, Verdict

T = TypeVar("T")

_NO_NUL = r"^[^\x00]*$"
_MOST_NUMBER = 2**63 - 1


def _digits(given: object) -> object:
    """Read a number of ASCII digits, and not all that `int` reads, such as spaces and underscores."""
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 20:
        return int(given)
    raise ValueError("use digits")


def _finite(given: object) -> object:
    """Refuse `NaN` and numbers that are too large for a float: JSON has neither."""
    json.dumps(given, allow_nan=False)
    return given


Name = Annotated[str, Field(max_length=200, pattern=_NO_NUL)]
Words = Annotated[str, Field(max_length=100_000, pattern=_NO_NUL)]
SearchText = Annotated[str, Field(max_length=1_000, pattern=_NO_NUL)]
"""Text in an address, which servers limit."""
Required = Annotated[str, Field(pattern=r"^\s*[^\s\x00][^\x00]*$")]
"""Text that is not blank."""
Limit = Annotated[int, Field(ge=1, le=200), BeforeValidator(_digits)]
Number = Annotated[int, Field(ge=0, le=_MOST_NUMBER), BeforeValidator(_digits)]
EventId = Annotated[str, Field(pattern=r"^([!-~]{1,200}:[0-9]{1,18})?$")]
"""The id of an event in the stream of a conversation: its turn and its number."""
Moment = Annotated[int, Field(ge=0, le=2**40), BeforeValidator(_digits)]
"""Seconds since the epoch, UTC."""
Money = Annotated[str, BeforeValidator(lambda value: f"{value:f}" if isinstance(value, Decimal) else value)]
"""US dollars, exact."""


class Given(BaseModel):
    """A part of a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, regex_engine="python-re", populate_by_name=False)


class Form(BaseModel):
    """A part of an answer, read from the attributes of a value."""

    model_config = ConfigDict(from_attributes=True)


# -- requests ----------------------------------------------------------------------------------------------------------


class PageQuery(Given):
    """A page of a list."""

    limit: Limit = 50
    before: Annotated[Name | None, Field(description="The value of `next` of the previous page.")] = None


class LimitQuery(Given):
    """The beginning of a list."""

    limit: Limit = 50


class SearchQuery(LimitQuery):
    """Words to find."""

    text: SearchText


class EventsQuery(Given):
    """A position in a log of events."""

    after: Annotated[Number, Field(description="The number of the last event that the client has.")] = 0
    until: Literal["ended", "suspended"] = "ended"


class PositionQuery(Given):
    """A position in the events of a conversation."""

    after: Annotated[EventId, Field(description="The id of the last event that the client has.")] = ""


class UsageQuery(Given):
    """The records of a sum."""

    by: Literal["model", "agent", "day", "run"] = "model"
    since: Moment | None = None
    until: Moment | None = None


class FileQuery(Given):
    """The name of an upload."""

    name: Name = ""


class KeyHeaders(Given):
    """The header of a request that may be sent again."""

    key: Annotated[
        str,
        Field(
            alias="Idempotency-Key",
            pattern=r"^[!-~]{0,200}$",
            description="Any text of the client's: the same one again is the same turn.",
        ),
    ] = ""


class ResumeHeaders(Given):
    """The header of a browser that reconnects."""

    last: Annotated[Number | None, Field(alias="Last-Event-ID")] = None


class PositionHeaders(Given):
    """The header of a browser that reconnects to a conversation."""

    last: Annotated[EventId | None, Field(alias="Last-Event-ID")] = None


class NewConversation(Given):
    """A conversation to create."""

    agent: Annotated[Name, Field(description="One of `/api/agents`; the first of them by default.")] = ""


class TitleChange(Given):
    """A title."""

    title: Name


class NewMessage(Given):
    """A message to an agent."""

    text: Required
    files: Annotated[list[Name], Field(max_length=20, description="The ids of uploads.")] = []
    when_busy: WhenBusy = "queue"
    mode: Name = ""


class EditedMessage(Given):
    """A message in place of another one."""

    text: Required
    when_busy: Literal["refuse", "queue", "interrupt"] = "refuse"


class Regeneration(Given):
    """The answer to a message again."""

    when_busy: Literal["refuse", "queue", "interrupt"] = "refuse"


class NewFeedback(Given):
    """The user's judgment of an answer; neither removes it."""

    rating: Rating | None = None
    text: Words = ""


class SteeringMessage(Given):
    """A message to a run in progress."""

    text: Required


class ApprovalAnswer(Given):
    """A decision about a call."""

    decision: Literal["approve", "deny"]
    arguments: Annotated[
        dict[str, Any] | None,
        AfterValidator(_finite),
        Field(description="To approve the call with other arguments: all of them."),
    ] = None
    remember: Remember = "once"
    reason: Annotated[Words, Field(description="For a denial: the model reads it.")] = ""


class QuestionAnswer(Given):
    """An answer to a question."""

    answer: Annotated[
        Words | Annotated[dict[str, Any], AfterValidator(_finite)] | None,
        Field(description="A text, or an object if the question has a schema; null declines."),
    ]


class NewGoal(Given):
    """A goal for a worker."""

    text: Required
    files: Annotated[list[Name], Field(max_length=20)] = []
    conversation: Annotated[Name | None, Field(description="An earlier conversation with the worker.")] = None


# -- answers -----------------------------------------------------------------------------------------------------------


class ListForm(Form, Generic[T]):
    """A whole list."""

    items: list[T]


class PageForm(ListForm[T], Generic[T]):
    """A page of a list."""

    next: str | None
    """The value of `before` for the next page; null on the last one."""


class ConversationForm(Form):
    """A conversation."""

    id: str
    agent: str
    title: str
    created: float
    updated: float
    leaf: str
    busy: str
    modes: list[str]
    tools: list[str]


class FeedbackForm(Form):
    """The user's judgment of an answer."""

    rating: Rating | None
    text: str


class TurnForm(Form):
    """A turn: a message, and the run that answers it."""

    id: Annotated[str, Field(validation_alias="run_id")]
    conversation_id: str
    parent: str
    state: TurnState
    message: str
    answer: str
    error: str | None
    created: float
    mode: str
    feedback: FeedbackForm | None
    siblings: list[str]


class LeafForm(Form):
    """The last turn of the active branch."""

    leaf: str


class RunForm(Form):
    """A run."""

    id: str
    root_id: str
    parent_id: str | None
    agent: str
    agent_path: str
    conversation_id: str
    task: str
    state: StoredState
    started: float
    ended: float | None
    answer: str
    error: str | None


class TokensForm(Form):
    """Token counts."""

    prompt: int
    completion: int
    cached: int
    cache_write: int
    reasoning: int


class UsageForm(Form):
    """The usage of one attempt at a model."""

    id: str
    run_id: str
    agent_path: str
    provider: str
    model: str
    tokens: TokensForm
    source: UsageSource
    cost: Money | None
    tools: list[str]


class SumForm(Form):
    """A sum over usage records; `cost` leaves out what has no price, `tokens` what is unknown."""

    by: str
    attempts: int
    tokens: TokensForm
    cost: Money
    unpriced: int
    estimated: int
    unknown: int


class AttemptForm(Form):
    """An attempt at a model."""

    usage_id: str
    model: str
    at: float
    side: bool
    error: str
    lost: bool


class CallForm(Form):
    """A tool call."""

    key: str
    name: str
    call_id: str
    arguments: str | None
    state: OperationState | Literal["erased"]
    error: str


class NoteForm(Form):
    """An event between the calls of a step."""

    at: float
    label: str
    text: str
    edited: list[int]


class StepForm(Form):
    """A turn of a run's loop."""

    number: int
    at: float
    until: float
    model: str
    model_seconds: float | None
    attempts: list[AttemptForm]
    calls: list[CallForm]
    notes: list[NoteForm]
    usage: list[UsageForm]


class TimelineForm(Form):
    """The steps of a run."""

    steps: list[StepForm]
    erased: bool
    problem: str


class WorkForm(Form):
    """Work that was in progress when a run was stopped."""

    agent_path: str
    what: str
    name: str
    call_id: str
    effect: str


class ReceiptForm(Form):
    """The fate of all work that a stop found in progress."""

    stopped: list[WorkForm]
    not_stopped: list[WorkForm]
    unknown: list[WorkForm]


class ApprovalForm(Form):
    """A call that waits for an approval."""

    key: str
    run_id: str
    root_id: str
    agent_path: str
    call_id: str
    tool: str
    arguments: str
    """JSON text: exactly what would run."""
    who: list[str]
    note: str
    opened: float
    expires: float | None


class AnswerForm(Form):
    """The effect of an answer to a waiting call."""

    won: bool
    """Whether this answer was the first one."""
    verdict: Verdict
    by: str


class FileForm(Form):
    """An upload."""

    id: str
    name: str
    media_type: str
    size: int
    uploaded: float


class WorkerForm(Form):
    """A worker, for a page about it."""

    id: str
    name: str
    title: str
    description: str
    long_description: str
    icon: str
    status: Literal["active", "coming_soon"]
    starter_prompts: list[str]
    approval_label: str
    empty_state_description: str


class DocumentEntryForm(Form):
    """An update of a living document."""

    section: str
    text: str
    version: int
    label: str
    source: list[str]
    conflict: bool


class GoalForm(Form):
    """The status of a worker's run."""

    run: RunForm
    passes: int
    ended: str
    """Why the loop ended; empty before."""
    document: dict[str, str]
    """The sections as they are now."""
    history: list[DocumentEntryForm]
    approvals: list[ApprovalForm]


class ErasureForm(Form):
    """The number of records that were erased."""

    runs: int
    memories: int
    files: int
