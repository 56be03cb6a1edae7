"""What is stored: values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from ..errors import ConfigurationError
from ..events import RunStatus
from ..messages import Message
from ..usage import Tokens, UsageRecord
from ..waits import Wait

JOURNAL_VERSION = 1
"""Of the meaning of entries. A reader refuses a greater one."""

RunState = Literal["running", "suspended"] | RunStatus
"""How a run stands: `running` also where its process was killed."""
EntryKind = Literal["begun", "asking", "answered", "outcome", "waiting", "suspended", "resumed", "noted", "ended"]
"""`begun`: what the run was given. `asking`: all up to a request, which is about to be sent. `answered`: the model's
answer, its usage, and the calls that may begin now. `outcome`: calls that began or ended before their siblings.
`waiting`: a call that waits. `suspended`: only waits are left. `resumed`: somebody has taken the run up. `noted`:
usage alone. `ended`: the end."""
GOES_ON: frozenset[EntryKind] = frozenset(("answered", "outcome", "waiting", "suspended", "ended"))
"""The entries with which a run gets further: after one of them it has not been taken up in vain."""
CommandKind = Literal["stop", "steer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What is known of a run when it begins."""

    run_id: str
    root_id: str
    """The run at the top of the tree; a first agent's run is its own root."""
    parent_id: str | None
    parent_call: str | None
    """The tool call of the parent that this run belongs to."""
    agent: str
    agent_path: str
    conversation_id: str
    user_id: str
    organization_id: str
    task: str
    """The user's message, or what the parent asked for, as the data policy leaves it."""
    started: float
    """Seconds since the epoch, UTC."""
    forked_from: str | None = None
    """The run that this one is a fork of."""
    erase_after: float | None = None
    """As in `RunEnd`, for a run that is ended by others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    status: RunStatus
    answer: str
    error: str | None
    ended: float
    lasts: float | None = None
    """Seconds for which answer, error and the run's task may remain; None: for ever."""
    erase_after: float | None = None
    """Seconds after the end of its tree after which all that the run held is erased; 0: in the very append that ends
    the tree; None: never. A run that is taken up may need what a finished sub-agent held: so not before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as the store knows it; `end` is None while it goes on, waits, or lies where its process was killed."""

    start: RunStart
    end: RunEnd | None
    state: RunState = "running"
    entries: int = 0
    """How long its journal is."""
    epoch: int = 0
    """How often its tree was claimed."""
    owner: str = ""
    """Who holds its tree now; "": nobody."""
    tries: int = 0
    """How often it was taken up since it last went on."""
    stop: bool = False
    """Whether it is to be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message with what is kept beside it."""

    message: Message
    tokens: int | None = None
    """By the run's counter, where it was counted."""
    progress: Sequence[dict[str, Any]] = ()
    """For a tool's result: the steps that the tool showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage(StoredMessage):
    """A message as a run needs it, with what may remain of it."""

    keep: Message | None
    """What history shows, and what remains when the run has ended; None: nothing. The same object as `message`:
    all of it."""
    keep_progress: bool = True
    seconds: float | None = None
    """How long that may remain after the end of the run; None: for ever."""
    later: Message | None = None
    """What remains after that; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    """A text that many runs share: a system prompt, a tool's description, a message of a history."""

    id: str
    """Follows from the owner and the body, so that the same text is kept once."""
    body: str
    user_id: str
    run_id: str | None = None
    """For a text that the data policy lets no longer live than this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The worst case of one attempt at a model, to be set aside before it begins."""

    id: str
    """Of the usage record that will settle it."""
    accounts: tuple[str, ...]
    """Those without a budget do not matter."""
    tokens: int
    money: Decimal | None
    """US dollars; None where no price is known."""
    spare_tokens: int = 0
    """What must be left beside it, for an ending."""
    spare_money: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What an attempt took in the end; its reservation, if there is one, is released."""

    id: str
    accounts: tuple[str, ...]
    tokens: int
    money: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one append writes: all of it or nothing."""

    run_id: str
    seq: int
    """Its number in the run's journal: it is written only if it is the next."""
    claim: Claim
    kind: EntryKind
    step: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    """Structure: numbers, names, ids. It stays for ever."""
    held: dict[str, Any] | None = None
    """Content: what resuming needs and the data policy may forbid. None: nothing."""
    messages: Sequence[HeldMessage] = ()
    texts: Sequence[StoredText] = ()
    usage: Sequence[UsageRecord] = ()
    waits: Sequence[Wait] = ()
    """Opened; `expires` is seconds from now here."""
    taken: Sequence[str] = ()
    """Keys of the waits whose resolutions this entry takes in."""
    reserve: Reservation | None = None
    settle: Sequence[Settlement] = ()
    end: RunEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write the runs of one tree, until somebody else claims it."""

    root_id: str
    epoch: int
    owner: str
    seconds: float
    """For how long it was given."""
    tries: int = 0
    """How often the tree was taken up, this time included, since it last went on."""
    sure: bool = True
    """Whether the one who had it before surely does nothing more: it gave the tree back, or its process is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a run stands after an append."""

    seq: int
    """The number of the next entry."""
    commands: int
    """The number of the last command to this run; 0: there was none."""
    stop: bool = False
    """Whether its tree is to be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """An entry as it is read. `held` is None where there was nothing, and `erased` says whether there was."""

    seq: int
    epoch: int
    kind: EntryKind
    step: int
    at: float
    body: dict[str, Any]
    held: dict[str, Any] | None
    erased: bool
    messages: Sequence[StoredMessage]
    usage: Sequence[UsageRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJournal:
    """A run's journal, whole."""

    run: StoredRun
    entries: Sequence[StoredEntry]
    texts: dict[str, str]
    """The bodies of the texts that its entries name in `body["texts"]`, by id; what was erased is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What somebody wants of a run."""

    number: int
    """Greater than that of every earlier command."""
    kind: CommandKind
    text: str
    by: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit on what an account may spend. None: no limit of this kind. Raises `ConfigurationError` if it is none."""

    tokens: int | None = None
    money: Decimal | None = None
    """US dollars."""

    def __post_init__(self) -> None:
        tokens, money = self.tokens, self.money
        if tokens is None and money is None:
            raise ConfigurationError("Budget() limits nothing: give it tokens or money")
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0):
            raise ConfigurationError(f"Budget(tokens={tokens!r:.80}): use a whole number of at least 0")
        if money is not None and not (isinstance(money, Decimal) and money.is_finite() and money >= 0):
            raise ConfigurationError(
                f"Budget(money={money!r:.80}): use a Decimal of at least 0, such as Decimal('2.50')"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account with a budget. `spent + reserved` is never over the budget when something is reserved."""

    name: str
    """`run:ID`, `user:ORGANIZATION/USER` or `organization:ID`."""
    budget: Budget
    reserved_tokens: int
    reserved_money: Decimal
    spent_tokens: int
    spent_money: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the watchdog should do."""

    expired: int
    """Waits that have just expired."""
    ready: Sequence[str]
    """Roots of suspended trees in which a run has all the outcomes that it waited for, and nobody has taken them in."""
    orphaned: Sequence[str]
    """Roots of trees that go on, and that nobody who may be alive holds."""
    stopping: Sequence[str] = ()
    """Roots of trees that go on and are to be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was erased."""

    runs: int
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """A sum over the ledger."""

    by: tuple[str, ...]
    """The values of what it was grouped by."""
    attempts: int
    tokens: Tokens
    cost: Decimal
    """US dollars, of the attempts whose price is known."""
    unpriced: int
    """Attempts without a known price: `cost` is without them."""
    estimated: int
    """Attempts whose tokens were estimated."""
    unknown: int
    """Attempts of which nobody can say what they took: `tokens` is without what they generated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Something a user wants remembered."""

    id: str
    text: str
    created: float
    metadata: dict[str, Any] = field(default_factory=dict)
