"""The ports of storage. One conformance suite runs against every adapter.

A run is stored as an append-only journal, with entries numbered from 0. Each append is atomic and fenced twice: by the
entry's number, which another writer would have used, and by the epoch of the claim on the run's tree, which another
process would have raised. The claim on a root covers all runs below it. All times are the store's: a store on several
machines uses the database's clock, never a caller's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..operations import Operation
from ..quotas import QuotaStore
from ..scope import AnyScope, Operator, Scope, TenantScope
from ..usage import UsageRecord
from ..waits import Resolution, Wait
from .call_store import CallStore, Consumer
from .types import (
    Account,
    ApprovalRule,
    Budget,
    Claim,
    Command,
    CommandKind,
    Entry,
    Erased,
    EventBatch,
    EventPage,
    Head,
    Memory,
    RunStart,
    StoredJournal,
    StoredMessage,
    StoredRun,
    UsageSum,
)
from .user_stores import ScheduleStore, SecretStore

if TYPE_CHECKING:
    from .conversation_types import (
        DueTurn,
        Feedback,
        QueuedTurn,
        QueueWhen,
        StoredConversation,
        StoredHistory,
        StoredTurn,
    )
    from .open_tree import OpenTree


class JournalStore(Protocol):
    """The port for writing and claiming runs. Every method may raise `StorageError`; a failed write leaves nothing."""

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> bool:
        """Start a run with entry 0. A root is claimed by *claim*; a child is written under its root's claim.

        Return whether an account of its tree has a budget. A root with a `parent_id` works for the call `parent_call`
        of another tree: its end answers the call (`RunEnd.reply`), its usage is part of that tree's, and it is to stop
        when the call gets another answer.

        Raises `RunExistsError` if the store has the run, `StaleClaimError` if *claim* is not its root's, and
        `RunEndedError` if the call of a root waits for no result.
        """
        ...

    async def append(self, entry: Entry) -> Head:
        """Append *entry* to its run's journal, with everything in it, or nothing.

        A usage record or text whose id exists is not added again. A wait whose key exists stays as it is. The end of a
        root ends all runs below it, and releases the claim. After a run's end only usage may be added, because its
        content may be erased.

        Raises `StaleClaimError` if another process has claimed the tree, if the tree is unknown or if `entry.seq` is
        not next, `RunEndedError`, `BudgetError` if an account cannot cover `entry.reserve`, and `UnreadMessagesError`
        if a message with a number greater than `entry.read` was sent to the run.
        """
        ...

    async def claim(self, scope: AnyScope, run_id: str, owner: str, seconds: float) -> Claim:
        """Claim the tree of the root *run_id* for *owner*, for *seconds* unless renewed.

        Only a process in the owner's own pid namespace may end the lease of a dead owner early. A claim on a tree
        whose last claim was never released counts as a try.

        Raises `RunClaimedError` while the lease of another owner lasts, `UnknownRunError` and `RunEndedError`.
        """
        ...

    async def renew(self, claim: Claim, seconds: float) -> Head:
        """Extend the lease of *claim* to *seconds* from now; a tree that has ended needs none.

        Raises `StaleClaimError` if another process has claimed the tree, or the tree is unknown.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Release *claim*, so that any process may claim the tree at once. Ignore a stale claim.

        If the claim was not sure, neither is the next one.
        """
        ...

    async def load(self, scope: AnyScope, run_id: str, *, from_snapshot: bool = False) -> StoredJournal | None:
        """Return the part of a run's journal that was not erased; None if the run is unknown.

        *from_snapshot* leaves out what the last snapshot makes redundant (see `StoredJournal.snapshot`). Raises
        `StorageError` if an entry is corrupt or of a newer format; the message names the run and the entry.
        """
        ...


class Queries(Protocol):
    """The port for reading runs, in the form that the data policy leaves."""

    async def run(self, scope: AnyScope, run_id: str) -> StoredRun | None:
        """Return one run, or None; a root as it is after all writes to its tree that this process began before."""
        ...

    async def runs(
        self,
        scope: AnyScope,
        *,
        conversation_id: str | None = None,
        root_id: str | None = None,
        state: str | None = None,
        roots: bool = False,
        limit: int = 50,
    ) -> Sequence[StoredRun]:
        """Return the runs that match every given filter, newest first; with *roots*, without sub-agents' runs."""
        ...

    async def messages(self, scope: AnyScope, run_id: str) -> Sequence[StoredMessage]:
        """Return the messages of a run in the order of their appends, without the history that it was given."""
        ...

    async def usage(self, scope: AnyScope, root_id: str, *, after: int = -1) -> Sequence[UsageRecord]:
        """Return the usage records of a tree, in order, but not those of the root's entries up to number *after*."""
        ...

    async def unsettled_usage(self, scope: AnyScope, *, limit: int = 100, after: str = "") -> Sequence[UsageRecord]:
        """Return the `unknown` usage records, the oldest first; with *after*, those booked after the one of that id."""
        ...

    async def usage_sums(
        self, scope: AnyScope, by: Sequence[str], *, since: float | None = None, until: float | None = None
    ) -> Sequence[UsageSum]:
        """Return sums over the records booked in [*since*, *until*), one per combination of *by*.

        *by* names `run` (the tree's root), `agent`, `model`, `tenant`, `user` and `day` (UTC). Raises `StorageError`
        for another name, and for `user` without `tenant` if *scope* is an operator's.
        """
        ...


class OperationStore(Protocol):
    """Open operations, their waits, commands to runs, and the accounts that runs draw on."""

    async def open_tree(self, claim: Claim, *, after: int = -1) -> OpenTree:
        """Return what the holder of *claim* needs to resume the tree, with the usage after the root's entry *after*."""
        ...

    async def operations(
        self, scope: AnyScope, *, root_id: str | None = None, run_id: str | None = None
    ) -> Sequence[Operation]:
        """Return the stored operations that match, ordered by step, index and key."""
        ...

    async def waits(
        self,
        scope: AnyScope,
        *,
        root_id: str | None = None,
        run_id: str | None = None,
        open: bool = True,
        limit: int = 100,
        after: Wait | None = None,
    ) -> Sequence[Wait]:
        """Return waits, the oldest first; with *after*, those after that one.

        With *open*, only those whose operation is in state `waiting`.
        """
        ...

    async def approvals(self, scope: AnyScope, *, limit: int = 100, after: Wait | None = None) -> Sequence[Wait]:
        """Return the open approvals that *scope* may answer, the oldest first; with *after*, those after that one.

        A call that names people may be answered by them in the tenant of its run, any other by those who reach it.
        """
        ...

    async def wait(self, scope: AnyScope, key: str) -> Wait | None:
        """Return one wait, or None."""
        ...

    async def resolve(self, scope: AnyScope, key: str, resolution: Resolution, *, run_id: str | None = None) -> Wait:
        """Answer a wait and return it with the answer that counts, which is the first one.

        The operation's state follows from `transition`: `approve`, `deny`, `resolve`, `fail`, `expire` or `cancel`.
        With *run_id*, the answer may arrive before the wait if the operation is `running` and `remote`.

        Raises `UnknownWaitError` if no operation waits or may be answered early under *key*.
        """
        ...

    async def send(self, scope: AnyScope, run_id: str, kind: CommandKind, text: str = "") -> None:
        """Add a command to *run_id*. Raises `UnknownRunError` or `RunEndedError`."""
        ...

    async def commands(self, scope: AnyScope, run_id: str, after: int = 0) -> Sequence[Command]:
        """Return the commands to *run_id* with a number greater than *after*, in order."""
        ...

    async def set_budget(self, scope: Scope | TenantScope, budget: Budget | None, *, run_id: str | None = None) -> None:
        """Set or remove the limit of an account: of the user, of the tenant with a `TenantScope`, or of a run's tree.

        The spending so far stays. Raises `ConfigurationError` if *scope* has no such account.
        """
        ...

    async def accounts(self, scope: Scope | TenantScope, *, run_id: str | None = None) -> Sequence[Account]:
        """Return the accounts with a budget that a run of *scope* draws on: the run's own, the user's, the tenant's."""
        ...

    async def settle_usage(self, scope: AnyScope, record: UsageRecord) -> None:
        """Replace the `unknown` or `estimated` usage record with the id of *record* by the provider's bill.

        Charges the difference to the accounts that paid for it, or releases it.

        Raises `UnknownRunError`, and `StorageError` if there is no such record or it is measured.
        """
        ...


class EventStore(Protocol):
    """The port of the log of numbered events of each tree, for readers in any process."""

    def add_events(self, batches: Sequence[EventBatch]) -> Awaitable[Sequence[BaseException | None]]:
        """Append each batch to its log, as a whole or not at all. Return their errors, or None, in the same order.

        The batches are queued before this returns: whatever is written to the store later is stored together with them
        or after them. The error is a `StaleClaimError` if another process has claimed the tree or the log is closed.
        Raises `StorageError` if the store is closed.
        """
        ...

    async def end_events(self, scope: AnyScope, root_id: str, items: Sequence[Any]) -> None:
        """Close the log of a root that ended without a process, with one row of *items*; not if it is closed."""
        ...

    async def events(self, scope: AnyScope, root_id: str, after: int = 0, limit: int = 64) -> EventPage:
        """Return about *limit* rows with the events after number *after*, in order, and the contents of their media.

        A page ends with the first batch that has media: their contents are large. Raises `UnknownRunError`.
        """
        ...

    async def event_positions(self, scope: AnyScope, root_ids: Sequence[str]) -> Sequence[tuple[str, int, bool, bool]]:
        """Return, for each root in reach, its log's last number, and whether log and run have ended.

        The number of a queued turn is -1: it has no log yet.
        """
        ...


class Recovery(Protocol):
    """The port that postpones trees, and erases content whose time is over."""

    async def postpone(self, scope: AnyScope, root_id: str, *, reason: str, seconds: float | None) -> None:
        """Keep a tree from being due for *seconds*, or make it a dead letter with None.

        The next claim clears *reason*. Raises `UnknownRunError`, `RunEndedError`, and `RunClaimedError` while a
        process has the tree: release the claim first.
        """
        ...

    async def retry(self, scope: AnyScope, root_id: str) -> None:
        """Make a dead letter due at once, with no tries. Raises `UnknownRunError`, `RunStateError`."""
        ...

    async def sweep(self, scope: Operator) -> int:
        """Erase content whose time is over, and return the number of runs from which it was erased."""
        ...

    async def erase(self, scope: Scope | TenantScope, *, force: bool = False) -> Erased:
        """Erase everything that *scope* reaches. The ledger stays, without the user's id.

        With *force*, end running trees as cancelled first, from their operations alone. Raises
        `StorageError` if a run has not ended and *force* is False.
        """
        ...

    async def close(self) -> None:
        """Release files and connections. Closing twice is allowed."""
        ...


class Conversations(Protocol):
    """Conversations: trees of turns, each of which is one root run.

    A run is a turn if its `RunStart.turn` is set. `begin` then raises, in addition, `ConversationBusyError` while
    another turn is in progress or queued, `LeafMovedError` if `turn.parent` must be the active leaf and is not,
    `TurnExistsError` if a message with its key was sent before, and `RunExistsError` if a queued turn was started or
    withdrawn meanwhile. A method raises `UnknownConversationError` for a conversation that *scope* does not have, and
    `UnknownTurnError` for a turn that the conversation does not have.
    """

    async def open_conversation(self, scope: Scope, conversation_id: str, agent: str) -> StoredConversation:
        """Return the conversation, created for *agent* if it is missing."""
        ...

    async def conversation(self, scope: Scope, conversation_id: str) -> StoredConversation | None:
        """Return one conversation, or None."""
        ...

    async def conversations(
        self, scope: AnyScope, *, limit: int = 50, before: str | None = None
    ) -> Sequence[StoredConversation]:
        """Return the conversations of *scope*, the last updated first; with *before*, those after that one."""
        ...

    async def conversation_marks(self, scope: Operator, named: Sequence[tuple[Scope, str]]) -> Sequence[str | None]:
        """Return a mark of each conversation, by its owner and id, that changes with what `conversation` returns.

        It also changes with the queue and with feedback, and when a turn begins to wait. None: it does not exist.
        """
        ...

    async def started_turns(
        self, scope: Scope, conversation_id: str, *, after: str | None = None, limit: int = 50
    ) -> Sequence[str]:
        """Return the ids of the turns that started after turn *after*, in the order of their start.

        With "", from the first on; with None, only the last one.
        """
        ...

    async def turn(self, scope: Scope, conversation_id: str, run_id: str) -> StoredTurn:
        """Return one turn."""
        ...

    async def turns(
        self, scope: Scope, conversation_id: str, *, limit: int = 50, before: str | None = None
    ) -> Sequence[StoredTurn]:
        """Return the turns of the active branch, the newest first; with *before*, those before that turn."""
        ...

    async def all_turns(self, scope: Scope, conversation_id: str) -> Sequence[StoredTurn]:
        """Return all turns of a conversation, also queued ones, in the order of their creation."""
        ...

    async def history(self, scope: Scope, conversation_id: str, run_id: str, *, after: str = "") -> StoredHistory:
        """Return the messages of the branch that ends with a turn, and the context that its run recorded.

        With *after*, only the messages of the turns after that one, if it is in the branch.
        """
        ...

    async def queue_turn(
        self, scope: Scope, conversation_id: str, turn: QueuedTurn, *, when: QueueWhen = "busy"
    ) -> bool:
        """Queue *turn*. Return False, and do nothing, if the conversation is in another state than *when*.

        Raises `TurnExistsError`.
        """
        ...

    async def steer_turn(self, scope: Scope, conversation_id: str, key: str, text: str) -> str | None:
        """Send *text* to the turn in progress and return its run id; None if no turn is. Raises `TurnExistsError`."""
        ...

    async def withdraw_turn(self, scope: Scope, conversation_id: str, run_id: str) -> bool:
        """Remove a queued turn. Return whether it was still queued."""
        ...

    async def claim_turns(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[DueTurn]:
        """Close the turns whose runs have ended, so that a search finds them; claim queued turns until none is left.

        The first in the queue of an idle conversation is due, again *seconds* after a claim; only those of *agents* if
        given. Tenants take turns. Fewer than *limit* are all that is due, except what another process is claiming.
        Nothing is claimed if *consumer* has lost a target. Queues are not read.
        """
        ...

    async def postpone_turn(self, scope: Scope, conversation_id: str, run_id: str, seconds: float) -> None:
        """Keep a queued turn from being due for *seconds*, because it could not be started."""
        ...

    async def select_leaf(self, scope: Scope, conversation_id: str, run_id: str, *, newest: bool = False) -> str:
        """Make a turn the active leaf, or with *newest* the newest turn below it. Return the leaf's run id."""
        ...

    async def set_title(
        self,
        scope: Scope,
        conversation_id: str,
        title: str,
        *,
        replace: bool = True,
        keep_seconds: float | None = None,
    ) -> str:
        """Set the title, unless there is one and *replace* is False. Return the title that counts.

        `sweep` erases it after *keep_seconds*; None: it stays.
        """
        ...

    async def rate_turn(
        self,
        scope: Scope,
        conversation_id: str,
        run_id: str,
        feedback: Feedback | None,
        *,
        keep_seconds: float | None = None,
    ) -> None:
        """Replace the feedback on a turn's answer, or remove it. `sweep` erases its text after *keep_seconds*."""
        ...

    async def search_turns(self, scope: AnyScope, text: str, *, limit: int = 20) -> Sequence[StoredTurn]:
        """Return the closed turns of *scope* with all words of *text*, the best first."""
        ...

    async def delete_conversation(self, scope: Scope, conversation_id: str) -> Erased:
        """Erase a conversation with its runs, which are ended first. The ledger stays."""
        ...


class Store(
    JournalStore,
    Queries,
    OperationStore,
    EventStore,
    Recovery,
    CallStore,
    QuotaStore,
    Conversations,
    ScheduleStore,
    SecretStore,
    Protocol,
):
    """All ports of a store of runs, in one."""


class ApprovalRules(Protocol):
    """Tools that users have approved for a conversation, or for good. An approval may add one."""

    async def is_allowed(self, scope: Scope, agent: str, tool: str, conversation_id: str) -> bool:
        """Return whether a rule of *scope* allows *tool* to *agent* in this conversation."""
        ...

    async def approval_rules(self, scope: Scope) -> Sequence[ApprovalRule]:
        """Return the rules of *scope*."""
        ...

    async def revoke(self, scope: Scope, tool: str) -> int:
        """Delete all rules of *scope* about *tool*, and return their number."""
        ...


class Memories(Protocol):
    """The port of memories: texts that users want remembered, kept separate for each user."""

    async def remember(self, scope: Scope, text: str) -> Memory:
        """Store *text* for the user of *scope*. The same text is stored once.

        Raises `StorageError` if *scope* has no user.
        """
        ...

    async def recall(self, scope: Scope, query: str, limit: int = 5) -> Sequence[Memory]:
        """Return the memories of *scope* that match *query* best; for an empty query, the newest."""
        ...
