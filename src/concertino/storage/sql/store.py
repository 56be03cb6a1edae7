"""The ports of `storage.base` on a database."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from types import TracebackType
from typing import Any, Self

from ...operations import Operation
from ...quotas import QuotaDemand, QuotaGrant
from ...scope import AnyScope, Operator, Scope, TenantScope
from ...usage import UsageRecord
from ...waits import Resolution, Wait
from ..call_store import Consumer
from ..open_tree import OpenTree
from ..schedule_types import Schedule
from ..types import (
    Account,
    ApprovalRule,
    Budget,
    Claim,
    ClaimedCall,
    Command,
    CommandKind,
    Due,
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
from . import (
    approval_rules,
    approvals,
    budgets,
    calls,
    claims,
    erasure,
    events,
    journal,
    memories,
    quotas,
    reader,
    schedule,
    schedules,
    secrets,
)
from .conversation_store import SqlConversations
from .open_tree import open_tree
from .session import StoreConnection, TreeCall, WriteCall


class SqlMemories:
    """`Memories` on one connection."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    async def remember(self, scope: Scope, text: str) -> Memory:
        """Store *text* for the user of *scope*; the same text again is the same memory, with its first time."""
        return await self._connection.write(WriteCall(memories.remember, scope, text))

    async def recall(self, scope: Scope, query: str, limit: int = 5) -> Sequence[Memory]:
        """Return the memories of *scope* with words of *query*, the best first (BM25); without words, the newest."""
        return await self._connection.run(memories.recall, scope, query, limit)


class SqlApprovalRules(SqlMemories):
    """`ApprovalRules` on one connection."""

    async def is_allowed(self, scope: Scope, agent: str, tool: str, conversation_id: str) -> bool:
        """Return whether a rule of *scope* allows *tool* to *agent* in this conversation."""
        return await self._connection.run(approval_rules.is_allowed, scope, agent, tool, conversation_id)

    async def approval_rules(self, scope: Scope) -> Sequence[ApprovalRule]:
        """Return the rules of *scope*."""
        return await self._connection.run(approval_rules.rules_of, scope)

    async def revoke(self, scope: Scope, tool: str) -> int:
        """Delete all rules of *scope* about *tool*, and return their number."""
        return await self._connection.write(WriteCall(approval_rules.revoke, scope, tool))


class SqlSchedules:
    """`ScheduleStore` on one connection."""

    _connection: StoreConnection

    async def add_schedule(self, scope: Scope, schedule: Schedule) -> bool:
        """Store a schedule of *scope*. Return False, and change nothing, if its scope has one of that id."""
        return await self._connection.write(WriteCall(schedules.add_schedule, scope, schedule))

    async def schedules(self, scope: AnyScope, *, limit: int = 100) -> Sequence[Schedule]:
        """Return the schedules that *scope* reaches, the oldest first."""
        return await self._connection.run(schedules.schedules, scope, limit)

    async def schedule(self, scope: AnyScope, schedule_id: str) -> Schedule | None:
        """Return one schedule, or None."""
        return await self._connection.run(schedules.schedule, scope, schedule_id)

    async def due_schedules(
        self, scope: Operator, limit: int = 50, agents: Collection[str] | None = None
    ) -> tuple[float, Sequence[Schedule]]:
        """Return the store's time, and the schedules that are due."""
        return await self._connection.run(schedules.due_schedules, scope, limit, agents)

    async def move_schedule(
        self, scope: AnyScope, schedule_id: str, due_at: float | None, *, since: float | None
    ) -> bool:
        """Set when a schedule is due, if it is due at *since* now. Return whether it was."""
        return await self._connection.write(WriteCall(schedules.move_schedule, scope, schedule_id, due_at, since))

    async def delete_schedule(self, scope: AnyScope, schedule_id: str) -> bool:
        """Erase a schedule. Return whether there was one."""
        return await self._connection.write(WriteCall(schedules.delete_schedule, scope, schedule_id))


class SqlCalls:
    """`CallStore` on one connection."""

    _connection: StoreConnection

    async def claim_calls(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        targets: Collection[str] | None = None,
        consumer: Consumer | None = None,
        overdue: float = 0.0,
    ) -> Sequence[ClaimedCall]:
        """Claim calls of targets that are due."""
        return await self._connection.run(calls.claim_calls, scope, seconds, limit, targets, consumer, overdue)

    async def postpone_call(self, scope: Operator, call: ClaimedCall, seconds: float) -> None:
        """Let any process take a claimed call after *seconds*."""
        await self._connection.write(WriteCall(calls.postpone_call, scope, call, seconds))

    async def claim_target(
        self, scope: Operator, target: str, owner: str, seconds: float, agents: Collection[str] = ()
    ) -> str:
        """Make *owner* the only consumer of *target*, unless it has one. Return the owner of the target now."""
        return await self._connection.write(WriteCall(calls.claim_target, scope, target, owner, seconds, agents))

    async def leave_target(self, scope: Operator, target: str, owner: str) -> None:
        """End the lease of *owner* on *target*."""
        await self._connection.write(WriteCall(calls.leave_target, scope, target, owner))


class SqlQuotas:
    """`QuotaStore` on one connection."""

    _connection: StoreConnection

    async def draw_quota(self, scope: Operator, demand: QuotaDemand) -> QuotaGrant:
        """Grant a process what it may use of a quota within a slice."""
        return await self._connection.write(WriteCall(quotas.draw_quota, scope, demand))


class SqlSecrets:
    """`SecretStore` on one connection."""

    _connection: StoreConnection

    async def secret(self, scope: AnyScope, name: str) -> tuple[str, int] | None:
        """Return the encrypted text and the version of a secret, or None."""
        return await self._connection.run(secrets.secret, scope, name)

    async def put_secret(self, scope: Scope, name: str, sealed: str, *, version: int | None) -> bool:
        """Replace *version* of a secret, and end the claim on it; with None, add it. Return whether this was done."""
        return await self._connection.write(WriteCall(secrets.put_secret, scope, name, sealed, version))

    async def claim_secret(self, scope: Scope, name: str, *, version: int, seconds: float) -> bool:
        """Claim *version* of a secret for *seconds*. Return False if it is claimed, or has another version."""
        return await self._connection.write(WriteCall(secrets.claim_secret, scope, name, version, seconds))

    async def delete_secret(self, scope: AnyScope, name: str, *, version: int | None = None) -> bool:
        """Erase a secret, if it has *version*; with None, whichever it has. Return whether there was one."""
        return await self._connection.write(WriteCall(secrets.delete_secret, scope, name, version))


class SqlStore(SqlApprovalRules, SqlConversations, SqlSchedules, SqlSecrets, SqlCalls, SqlQuotas):
    """`Store` and `Memories` on one connection; `storage.base` documents the methods.

    Every method may raise `StorageError`, which names the file and the remedy. A cancelled call is carried out as a
    whole or not at all.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> bool:
        """Start a run with entry 0. Return whether an account of its tree has a budget."""
        return await self._connection.write(journal.Beginning(start, entry, claim))

    async def append(self, entry: Entry) -> Head:
        """Append *entry* to its run, or nothing. When this returns, the entry survives a power cut."""
        return await self._connection.write(journal.Appending(entry))

    async def claim(self, scope: AnyScope, run_id: str, owner: str, seconds: float) -> Claim:
        """Claim the tree of the root *run_id*."""
        return await self._connection.write(TreeCall(run_id, claims.claim_tree, scope, run_id, owner, seconds))

    async def renew(self, claim: Claim, seconds: float) -> Head:
        """Extend the lease of *claim* to *seconds* from now."""
        return await self._connection.write(TreeCall(claim.root_id, claims.renew, claim, seconds))

    async def release(self, claim: Claim) -> None:
        """Release *claim*."""
        await self._connection.write(TreeCall(claim.root_id, claims.release, claim))

    async def load(self, scope: AnyScope, run_id: str, *, from_snapshot: bool = False) -> StoredJournal | None:
        """Return a run's journal, whole or from its last snapshot on, or None."""
        return await self._connection.run_after(run_id, reader.load, scope, run_id, from_snapshot=from_snapshot)

    async def run(self, scope: AnyScope, run_id: str) -> StoredRun | None:
        """Return one run, or None."""
        found = await self._connection.run_after(run_id, reader.runs, scope, 1, run_id=run_id)
        return found[0] if found else None

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
        """Return the runs that match every given filter, newest first."""
        filters = {
            "conversation_id": conversation_id,
            "root_id": root_id,
            "state": state,
            "roots": roots,
        }
        return await self._connection.run(reader.runs, scope, limit, **filters)

    async def messages(self, scope: AnyScope, run_id: str) -> Sequence[StoredMessage]:
        """Return the messages of a run in the order of their appends."""
        return await self._connection.run(reader.messages, scope, run_id)

    async def usage(self, scope: AnyScope, root_id: str, *, after: int = -1) -> Sequence[UsageRecord]:
        """Return the usage records of a tree in the order of their booking, or only what followed an entry."""
        return await self._connection.run(reader.usage, scope, root_id, after)

    async def unsettled_usage(self, scope: AnyScope, *, limit: int = 100, after: str = "") -> Sequence[UsageRecord]:
        """Return the `unknown` usage records, the oldest first; with *after*, those after that record."""
        return await self._connection.run(reader.unsettled_usage, scope, limit, after)

    async def usage_sums(
        self, scope: AnyScope, by: Sequence[str], *, since: float | None = None, until: float | None = None
    ) -> Sequence[UsageSum]:
        """Return sums over the records booked in [*since*, *until*), with exactly added costs."""
        return await self._connection.run(reader.usage_sums, scope, by, since, until)

    async def open_tree(self, claim: Claim, *, after: int = -1) -> OpenTree:
        """Return what the holder of *claim* needs to resume the tree."""
        return await self._connection.run_after(claim.root_id, open_tree, claim, after)

    async def operations(
        self, scope: AnyScope, *, root_id: str | None = None, run_id: str | None = None
    ) -> Sequence[Operation]:
        """Return the stored operations that match."""
        return await self._connection.run(reader.operations, scope, root_id, run_id)

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
        """Return waits, the oldest first."""
        return await self._connection.run(approvals.waits, scope, root_id, run_id, open, limit, after)

    async def approvals(self, scope: AnyScope, *, limit: int = 100, after: Wait | None = None) -> Sequence[Wait]:
        """Return the open approvals that *scope* may answer, the oldest first."""
        return await self._connection.run(approvals.approvals, scope, limit, after)

    async def wait(self, scope: AnyScope, key: str) -> Wait | None:
        """Return one wait, or None."""
        return await self._connection.run(approvals.wait, scope, key)

    async def resolve(self, scope: AnyScope, key: str, resolution: Resolution, *, run_id: str | None = None) -> Wait:
        """Answer a wait and return it with the answer that counts."""
        return await self._connection.write(WriteCall(approvals.resolve, scope, key, resolution, run_id))

    async def send(self, scope: AnyScope, run_id: str, kind: CommandKind, text: str = "") -> None:
        """Add a command to *run_id*."""
        await self._connection.write(WriteCall(approvals.send, scope, run_id, kind, text))

    async def commands(self, scope: AnyScope, run_id: str, after: int = 0) -> Sequence[Command]:
        """Return the commands to *run_id* after number *after*."""
        return await self._connection.run(approvals.commands, scope, run_id, after)

    async def set_budget(self, scope: Scope | TenantScope, budget: Budget | None, *, run_id: str | None = None) -> None:
        """Set or remove the limit of the account of a user, a tenant or a run's tree."""
        await self._connection.write(WriteCall(budgets.set_budget, scope, budget, run_id))

    async def accounts(self, scope: Scope | TenantScope, *, run_id: str | None = None) -> Sequence[Account]:
        """Return the accounts with a budget that a run of *scope* draws on: the run's own, the user's, the tenant's."""
        return await self._connection.run(budgets.accounts, scope, run_id)

    async def settle_usage(self, scope: AnyScope, record: UsageRecord) -> None:
        """Replace an unknown or estimated usage record by the provider's bill."""
        await self._connection.write(WriteCall(budgets.settle_usage, scope, record))

    def add_events(self, batches: Sequence[EventBatch]) -> Awaitable[Sequence[BaseException | None]]:
        """Append each batch to the log of its tree, ahead of all later writes, and return their errors."""
        return self._connection.submit([events.AddingEvents(batch) for batch in batches])

    async def end_events(self, scope: AnyScope, root_id: str, items: Sequence[Any]) -> None:
        """Close the log of a root that ended without a process."""
        await self._connection.write(TreeCall(root_id, events.end_events, scope, root_id, items))

    async def events(self, scope: AnyScope, root_id: str, after: int = 0, limit: int = 64) -> EventPage:
        """Return about *limit* rows of a log after number *after*."""
        page = await self._connection.run(events.select_events(scope, root_id, after, limit))
        if page is not None:
            return page
        return await self._connection.run(events.events, scope, root_id, after, limit)

    async def event_positions(self, scope: AnyScope, root_ids: Sequence[str]) -> Sequence[tuple[str, int, bool, bool]]:
        """Return the last number of each log, and whether it is closed and its root has ended."""
        return await self._connection.run(events.select_positions(scope, root_ids))

    async def due(
        self,
        scope: Operator,
        limit: int = 50,
        agents: Collection[str] | None = None,
        *,
        owner: str = "",
        consumer: Consumer | None = None,
    ) -> Due:
        """Expire overdue waits, and return up to *limit* trees to resume."""
        return await self._connection.run(schedule.due, scope, limit, agents, owner, consumer)

    async def claim_due(
        self,
        scope: Operator,
        owner: str,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[Claim]:
        """Claim up to *limit* trees that are due."""
        return await self._connection.write(claims.ClaimingDue(scope, owner, seconds, limit, agents, consumer))

    async def postpone(self, scope: AnyScope, root_id: str, *, reason: str, seconds: float | None) -> None:
        """Postpone a tree by *seconds*, or make it a dead letter with None."""
        await self._connection.write(TreeCall(root_id, schedule.postpone, scope, root_id, reason, seconds))

    async def retry(self, scope: AnyScope, root_id: str) -> None:
        """Make a dead letter due at once."""
        await self._connection.write(TreeCall(root_id, schedule.retry, scope, root_id))

    async def sweep(self, scope: Operator) -> int:
        """Erase content whose time is over."""
        return await self._connection.run(erasure.sweep, scope)

    async def erase(self, scope: Scope | TenantScope, *, force: bool = False) -> Erased:
        """Erase everything that *scope* reaches except the ledger."""
        return await self._connection.run(erasure.erase, scope, force=force)

    async def close(self) -> None:
        """Finish pending calls, then release the connection. Closing twice is allowed."""
        await self._connection.close()
