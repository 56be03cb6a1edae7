"""The ports of storage. The adapter is `sqlite`, in a file or in memory; one conformance suite holds for every adapter.

A run is kept as a journal: entries that are only ever appended, numbered from 0. Each append is atomic, and fenced
twice: by the entry's number (nobody else has written meanwhile) and by the epoch of the claim on the run's tree (nobody
else has taken it over). A claim is held on the root of a tree and stands for all runs below it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from ..usage import UsageRecord
from ..waits import Resolution, Wait
from .types import (
    Account,
    Budget,
    Claim,
    Command,
    CommandKind,
    Due,
    Entry,
    Erased,
    Head,
    Memory,
    RunStart,
    StoredJournal,
    StoredMessage,
    StoredRun,
    UsageSum,
)


class Journal(Protocol):
    """Writing runs, and taking them up again. Every method may raise `StorageError`; a failed write leaves nothing."""

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> None:
        """Note that a run has begun, with entry 0. A root is claimed by *claim*; a child is written under its root's.

        Raises `RunExistsError` if the run is there already, `StaleClaimError` if the root's claim is not *claim*.
        """
        ...

    async def append(self, entry: Entry) -> Head:
        """Add *entry* to the journal of its run, with all that belongs to it, or nothing.

        A usage record or text whose id is there already is not added again. A wait whose key is there already (its
        outcome came first) stays as it is. With a root end all runs below it that have not. After the entry that ends a
        run only usage may be added: what the data policy forbids has been erased by then.

        Raises `StaleClaimError` if somebody else has taken the tree over, or the journal is not at `entry.seq`;
        `BudgetError` if an account has no room for `entry.reserve`.
        """
        ...

    async def claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        """Take the tree of the root *run_id* for *owner*, for *seconds* unless renewed.

        Raises `RunClaimedError` while another owner that may be alive holds it, `UnknownRunError`, and
        `RunEndedError` if the root has ended. A claim made while the last one was never released counts as a try.
        """
        ...

    async def renew(self, claim: Claim, seconds: float) -> Head:
        """Hold *claim* for *seconds* from now. Raises `StaleClaimError`."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give *claim* back, so that anybody may take the tree at once. Nothing happens if it is stale."""
        ...

    async def load(self, run_id: str) -> StoredJournal | None:
        """All of a run's journal, whole, as far as it has not been erased."""
        ...


class Queries(Protocol):
    """Reading what was kept, in the form that the data policy leaves."""

    async def run(self, run_id: str) -> StoredRun | None:
        """One run."""
        ...

    async def runs(
        self,
        *,
        conversation_id: str | None = None,
        root_id: str | None = None,
        user_id: str | None = None,
        state: str | None = None,
        roots: bool = False,
        limit: int = 50,
    ) -> Sequence[StoredRun]:
        """Runs, newest first: all those for which everything that is asked holds; with *roots*, no sub-agents'."""
        ...

    async def messages(self, run_id: str) -> Sequence[StoredMessage]:
        """The messages of a run, in the order of their appending, without the history that it was given."""
        ...

    async def usage(self, root_id: str) -> Sequence[UsageRecord]:
        """All usage records of a run and its sub-agents, in the order of their booking."""
        ...

    async def usage_sums(
        self, by: Sequence[str], *, since: float | None = None, until: float | None = None
    ) -> Sequence[UsageSum]:
        """Sums over the ledger for each combination of *by*: `run` (its tree), `agent`, `model`, `user`,
        `organization`, `day` (UTC). Raises `StorageError` for another word."""
        ...


class Waits(Protocol):
    """Open calls, the commands to runs, and the accounts that they draw on."""

    async def waits(
        self, *, root_id: str | None = None, run_id: str | None = None, open: bool = True, limit: int = 100
    ) -> Sequence[Wait]:
        """Waits, the oldest first; only the open ones unless asked."""
        ...

    async def wait(self, key: str) -> Wait | None:
        """One wait."""
        ...

    async def resolve(self, key: str, resolution: Resolution, *, run_id: str | None = None) -> Wait:
        """Answer a wait, and say how it stands now: with *resolution* if this was first, else with what was.

        With *run_id*, the call of a run that has not ended may be answered before it has begun to wait.
        Raises `UnknownWaitError`.
        """
        ...

    async def send(self, run_id: str, kind: CommandKind, text: str = "", by: str = "") -> None:
        """Leave a command for whoever runs *run_id*. Raises `UnknownRunError` or `RunEndedError`."""
        ...

    async def commands(self, run_id: str, after: int = 0) -> Sequence[Command]:
        """The commands to *run_id* with a greater number than *after*, in order."""
        ...

    async def set_budget(self, account: str, budget: Budget | None) -> None:
        """Give *account* a limit from now on, or none. What it has spent stays."""
        ...

    async def accounts(self, names: Sequence[str]) -> Sequence[Account]:
        """Those of the accounts *names* that have a budget."""
        ...


class Upkeep(Protocol):
    """What is done from time to time, and on demand."""

    async def due(self, limit: int = 50, agents: Collection[str] | None = None) -> Due:
        """Expire the waits whose time has come, and say which trees, of these *agents*, should be taken up again."""
        ...

    async def sweep(self) -> int:
        """Erase what was kept for a time that is over. How many runs were touched."""
        ...

    async def erase(self, *, user_id: str, organization_id: str | None = None) -> Erased:
        """Erase all that is known of a user. The ledger stays, without a name on it.

        Raises `StorageError` if a run of theirs has not ended: stop it first.
        """
        ...

    async def close(self) -> None:
        """Release files and connections. May be called twice."""
        ...


class Store(Journal, Queries, Waits, Upkeep, Protocol):
    """Everything that a store does for runs."""


class Memories(Protocol):
    """Keeps what users want remembered. Nobody sees another user's."""

    async def remember(self, owner: str, text: str) -> Memory:
        """Keep *text* for *owner*; the same text again is the same memory."""
        ...

    async def recall(self, owner: str, query: str, limit: int = 5) -> Sequence[Memory]:
        """The memories of *owner* that match *query* best; for an empty query, the newest."""
        ...
