"""Values of the storage port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any, Literal

from ..errors import ConfigurationError
from ..events import RunStatus
from ..messages import Message
from ..number_checks import check_whole
from ..operations import Operation
from ..records import record
from ..scope import Scope
from ..usage import Tokens, UsageRecord
from ..waits import Resolution, Wait

JOURNAL_VERSION = 1
"""Format of journal entries. A reader refuses a greater one."""

StoredState = Literal["running", "suspended", "dead_letter"] | RunStatus
"""`running`: also after the process was killed. `suspended`: only waits are left. `dead_letter`: not resumed again
until it is retried."""
EntryKind = Literal[
    "started",
    "model_requested",
    "side_requested",
    "side_answered",
    "model_answered",
    "calls_changed",
    "summary_ready",
    "suspended",
    "resumed",
    "usage_booked",
    "ended",
]
"""`started`: the run's input. `model_requested`: the turn's request, about to be sent. `side_requested`: a request next
to the turn. `model_answered`: the model's answer, its usage, and the calls that may start now. `calls_changed`: calls
that started, ended or wait. `summary_ready`: a summary of the conversation. `suspended`: only waits are left.
`resumed`: another process continues the run. `usage_booked`: usage alone. `ended`: the end."""
PROGRESS: frozenset[EntryKind] = frozenset(("model_answered", "calls_changed", "suspended", "ended"))
"""Entries that reset a tree's `tries`. The `started` entry of a child run does so, too."""
CommandKind = Literal["stop", "steer"]
AccountKind = Literal["run", "user", "tenant"]
"""The accounts that a tree draws on: its own, its user's, and its tenant's, which all users of the tenant share."""


@record(kw_only=True)
class TurnStart:
    """The turn that a run is, recorded in the transaction that starts the run."""

    parent: str = ""
    """Run id of the turn that it follows; empty for the first turn of a branch."""
    context: Sequence[Any] | None = None
    """The context state that the run continues, as `StoredHistory.context` has it."""
    at_leaf: bool = True
    """Whether *parent* must still be the active leaf; False if the caller chose it."""
    key: str = ""
    """The idempotency key; empty for none."""
    mode: str = ""
    queued: bool = False
    """Whether the store has it as a queued turn."""


@record(kw_only=True)
class Caller:
    """The call of another tree that a root run answers with its end."""

    run_id: str
    """The run that made the call."""
    key: str
    """The engine's id of the call."""
    path: str
    """The agent path of the run that answers it."""
    payer: str = ""
    """The tree whose account pays for the run; empty for its own."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What is left of the limits of the caller's tree, by the names of `Limits`."""
    patterns: Sequence[Any] = ()
    """Patterns that the caller's data policy keeps out."""


@record(kw_only=True)
class RunStart:
    """A run's identity and origin, known when it starts."""

    run_id: str
    root_id: str
    """The run at the top of the tree; a root's own id."""
    parent_id: str | None
    """The run above; for a root, the run of another tree whose call it answers."""
    parent_call: str | None
    """The parent's tool call that started this run; for a root, the key of that call."""
    agent: str
    agent_path: str
    conversation_id: str
    scope: Scope
    task: str
    """The user's message or the parent's request, as the data policy leaves it."""
    started: float
    """Seconds since the epoch, UTC."""
    forked_from: str | None = None
    """The run that this one was forked from."""
    erase_after: float | None = None
    """`RunEnd.erase_after`, in case the run ends with its root."""
    turn: TurnStart | None = None
    """The turn of the conversation that the run is; None: of no conversation. A stored run does not repeat it."""


@record(kw_only=True)
class RunEnd:
    """A run's end."""

    status: RunStatus
    answer: str
    error: str | None
    ended: float
    keep_seconds: float | None = None
    """Seconds after which answer, error and task are erased; None: never."""
    erase_after: float | None = None
    """Seconds after the end of the tree until the run's content is erased; 0: in the append that ends the tree; None:
    never. Not earlier than the tree's end, because a resumed parent may need the content of an ended sub-agent."""
    reply: Resolution | None = None
    """The answer to the call that the run works for, given in the transaction of its end. Not stored with the run."""


@record(kw_only=True)
class StoredRun:
    """A run as stored; `end` is None until it has ended."""

    start: RunStart
    end: RunEnd | None
    state: StoredState = "running"
    entries: int = 0
    """Number of entries in its journal."""
    epoch: int = 0
    """Number of claims on its tree so far."""
    owner: str = ""
    """Owner of the claim on its tree; empty if it was released."""
    tries: int = 0
    """Claims since the tree's last progress that were not released."""
    stop: bool = False
    """True if a stop was requested."""
    reason: str = ""
    """Why its tree was postponed or is a dead letter; empty otherwise."""
    ready_at: float | None = None
    """Earliest time, by the store's clock, at which its tree is due; None: not before an answer or a command."""


@record(kw_only=True)
class StoredMessage:
    """A message with its metadata."""

    message: Message
    tokens: int | None = None
    """Counted by the run's counter; None if it was not counted."""
    progress: Sequence[dict[str, Any]] = ()
    """For a tool's result: the progress steps that the tool reported."""


@record(kw_only=True)
class EntryMessage(StoredMessage):
    """A message to append, with the forms that the data policy leaves of it."""

    keep: Message | None
    """Shown in the history, and left after the run's end; None: nothing. The same object as `message`: all of it."""
    keep_progress: bool = True
    keep_seconds: float | None = None
    """Seconds after the run's end until `keep` is replaced by `later`; 0: in the append that ends the tree; None:
    never."""
    later: Message | None = None
    """Left after `keep_seconds`; None: nothing."""


@record(kw_only=True)
class StoredText:
    """A text that many runs share: a system prompt, a tool's description, a message of a history."""

    id: str
    """Derived from scope and body, so that equal texts of a user are stored once."""
    body: str
    run_id: str | None = None
    """The run with whose end the text is erased; None if the data policy allows it to stay."""
    of_conversation: bool = False
    """Whether the text is erased with the run's conversation."""


@record(kw_only=True)
class Reservation:
    """The worst case of one attempt at a model, reserved before it starts on each account of the tree with a budget."""

    id: str
    """Id of the usage record that settles it."""
    tokens: int
    money: Decimal | None
    """US dollars; None if no price is known."""
    spare_tokens: int = 0
    """Tokens that must remain in addition, for a final answer."""
    spare_money: Decimal = Decimal(0)


@record(kw_only=True)
class Settlement:
    """The final charge of an attempt. Its reservation, if any, is released."""

    id: str
    tokens: int
    money: Decimal | None


@record(kw_only=True)
class Entry:
    """An append to a run's journal, written as a whole or not at all."""

    run_id: str
    seq: int
    """Number in the run's journal. The append is refused unless it is the next one."""
    claim: Claim
    kind: EntryKind
    step: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    """Structure: numbers, names, ids. Never erased."""
    content: dict[str, Any] | None = None
    """Content that resuming needs and that the data policy may forbid; None: nothing."""
    messages: Sequence[EntryMessage] = ()
    texts: Sequence[StoredText] = ()
    contents: Mapping[str, str] | None = None
    """Contents of media that the texts and the content name, by digest; those of `messages` are found by the store."""
    usage: Sequence[UsageRecord] = ()
    operations: Sequence[Operation] = ()
    """Operations to insert or update; those of any run of the same tree. An ended operation keeps its state, except
    that an unknown outcome may be settled."""
    closed: Sequence[str] = ()
    """Keys of operations that leave the table. Closing a wait's operation takes its answer in."""
    waits: Sequence[Wait] = ()
    """Waits to open, each with its operation in state `waiting`. `Wait.expires` is in seconds from now here."""
    reserve: Reservation | None = None
    settle: Sequence[Settlement] = ()
    end: RunEnd | None = None
    read: int | None = None
    """With `end`: the number of the last command that the run has processed. The append is refused if a message was
    sent after it. None: the run ends in any case."""


@record(kw_only=True)
class Claim:
    """The right to write the runs of one tree, until another process claims it."""

    root_id: str
    scope: Scope
    """The owner of the tree."""
    epoch: int
    owner: str
    seconds: float
    """Duration of the lease."""
    tries: int = 0
    """Claims since the tree's last progress that were not released, this one included."""
    payer: str = ""
    """The tree whose account pays; empty for the claimed one."""
    sure: bool = True
    """True if the previous owner certainly does nothing more: it released the claim, or its process is gone."""


@record(kw_only=True)
class ClaimedCall:
    """A call of a target that a process has taken."""

    scope: Scope
    wait: Wait
    task: Mapping[str, Any]
    waited: float
    """Seconds since the call was opened, by the store's clock."""


@record(kw_only=True)
class Head:
    """A run's position after an append."""

    seq: int
    """Number of the next entry."""
    commands: int
    """Number of the last command to this run; 0: there was none."""
    stop: bool = False
    """True if a stop of its tree was requested."""


@record(kw_only=True)
class StoredEntry:
    """A journal entry as stored. `content` is None if there was none or it was erased, which `erased` distinguishes."""

    seq: int
    epoch: int
    kind: EntryKind
    step: int
    at: float
    body: dict[str, Any]
    content: dict[str, Any] | None
    erased: bool
    messages: Sequence[StoredMessage]
    usage: Sequence[UsageRecord]


@record(kw_only=True)
class StoredJournal:
    """A run's journal."""

    run: StoredRun
    entries: Sequence[StoredEntry]
    texts: dict[str, str]
    """Bodies of the texts that entries name in `body["texts"]`, by id; erased texts are missing."""
    history: Sequence[Message] = ()
    """The messages of the turns before the run, if its entry 0 names the turn that it `follows`."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """Contents of the run's media by digest."""
    snapshot: int = 0
    """Number of the entry with the snapshot that it was read from: of the entries before it, only the first and the
    named ones are there, without their messages, and no usage is. 0: the journal is whole.

    A snapshot is an entry whose body has `snapshot` as its first name. Its `entries` are the numbers of the earlier
    entries that it depends on, and its `messages` are a number and further numbers: those of the first entry from which
    on all messages are needed, and of entries before it whose messages are needed."""
    earlier: Mapping[int, Sequence[StoredMessage]] = field(default_factory=dict)
    """The messages that the snapshot names, of the entries before its own, by the number of their entry, in order."""


@record(kw_only=True)
class Command:
    """A request to a run from outside."""

    number: int
    """Greater than that of every earlier command."""
    kind: CommandKind
    text: str
    by: str
    at: float


@record(kw_only=True)
class Budget:
    """A limit on an account's spending. None: no limit of this kind. Raises `ConfigurationError` if it is invalid."""

    tokens: int | None = None
    money: Decimal | None = None
    """US dollars."""

    def __post_init__(self) -> None:
        tokens, money = self.tokens, self.money
        if tokens is None and money is None:
            raise ConfigurationError("Budget() limits nothing: give it tokens or money")
        check_whole("Budget", "tokens", tokens, 0, optional=True)
        if money is not None and not (isinstance(money, Decimal) and money.is_finite() and money >= 0):
            raise ConfigurationError(
                f"Budget(money={money!r:.80}): use a Decimal of at least 0, such as Decimal('2.50')"
            )


@record(kw_only=True)
class Account:
    """An account with a budget. A reservation never brings `spent + reserved` over the budget."""

    kind: AccountKind
    budget: Budget
    reserved_tokens: int
    reserved_money: Decimal
    spent_tokens: int
    spent_money: Decimal


@record(kw_only=True)
class Due:
    """Trees that a watchdog should act on, by the ids of their roots."""

    expired: int
    """Number of waits that have just expired."""
    ready: Sequence[str]
    """Suspended trees with a run whose waits all have an answer."""
    orphaned: Sequence[str]
    """Running trees without a process: the claim was released, or its lease is over."""
    stopping: Sequence[str] = ()
    """Running trees with a stop request."""
    doubtful: Sequence[str] = ()
    """Those of the ready and orphaned trees that may be resumed, but that `claim_due` leaves out."""


@record(kw_only=True)
class EventRow:
    """Events of one run from one batch."""

    run_id: str
    entry: int
    """Number of the entry of the run's journal that will cover them: without that entry, a crash undid their work."""
    source: int | None = None
    """The answer or result whose pieces they are; negative once it is complete. None: they are no pieces."""
    items: Sequence[Any]
    """JSON: for each event its distance from the first event of the batch, and its form."""
    contents: Mapping[str, str] | None = None
    """Contents of media by digest. The items name each as `data_digest`: by it the store finds what a row needs."""


@record(kw_only=True)
class EventBatch:
    """Events to append to the log of a tree."""

    claim: Claim
    """The claim on the tree. A batch with an older claim is refused."""
    first: int
    """The number of the first event: the number after the last event of the log."""
    last: int
    rows: Sequence[EventRow]
    completed: Sequence[int] = ()
    """Sources of earlier batches that are complete now."""
    dropped: Sequence[int] = ()
    """Completed sources of earlier batches whose pieces are removed: a complete event has replaced them."""
    replaced: Sequence[tuple[int, Sequence[Any]]] = ()
    """The items that remain of earlier rows, by the row's number."""
    withheld: Sequence[tuple[str, str]] = ()
    """Runs and ids of calls whose results are removed, with their pieces, up to the event with `replaces`."""
    ends: bool = False
    """Whether the last event is the root's end. If the root has ended, nothing can follow."""


@record(kw_only=True)
class StoredEvents:
    """A row of the log as it is stored."""

    number: int
    run_id: str
    first: int
    """Number of the first event of its batch."""
    items: Sequence[Any]


@record(kw_only=True)
class EventPage:
    """A part of a tree's log."""

    rows: Sequence[StoredEvents]
    last: int
    """Number of the log's last event."""
    closed: bool
    """Whether the log has its last event."""
    ended: bool
    """Whether the root run has ended."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """Contents of the media that the rows name, by digest."""


@record(kw_only=True)
class Erased:
    """Counts of erased records."""

    runs: int
    memories: int


@record(kw_only=True)
class UsageSum:
    """A sum over the ledger."""

    by: tuple[str, ...]
    """Values of the columns that the sum is grouped by."""
    attempts: int
    tokens: Tokens
    """Tokens of the attempts with measured or estimated usage."""
    cost: Decimal | None
    """US dollars, of the attempts with a known price; None if none has one."""
    unpriced: int
    """Attempts without a known price, which `cost` leaves out."""
    estimated: int
    """Attempts with estimated tokens."""
    unknown: int
    """Attempts whose usage is unknown, which `tokens` leaves out; `Runtime.unsettled_usage` lists them."""
    unknown_tokens: Tokens = Tokens()
    """What is known of their tokens, such as an estimated prompt: a hint, not what was billed."""


@record(kw_only=True)
class ApprovalRule:
    """A tool that a user has approved in advance, for one agent."""

    agent: str
    tool: str
    always: bool
    """Whether the rule applies to all conversations, not only to the one in which it was made."""


@record(kw_only=True)
class Memory:
    """A text that a user wants remembered."""

    id: str
    text: str
    created: float
    metadata: dict[str, Any] = field(default_factory=dict)
