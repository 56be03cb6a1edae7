"""The store on a SQLite connection, whoever has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ...usage import UsageRecord
from ...waits import Resolution, Wait
from ..types import (
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
from . import approvals as waiting
from . import budgets as accounts
from . import claims, journal, memories
from . import erasure as erasing
from . import reader as reading
from .connection import Hands, Inline, Worker


class SqlStore:
    """`Store` and `Memories` on one connection. Their docstrings in `storage/port.py` say what each method does.

    Every method may raise `StorageError`, which names the file and the remedy. A cancelled caller leaves
    nothing half-done: what it asked for is carried out.
    """

    def __init__(self, hands: Hands) -> None:
        """Not for callers: see the subclasses."""
        self._hands = hands

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def begin(self, start: RunStart, entry: Entry, claim: Claim) -> None:
        """Note that a run has begun, with entry 0."""
        await self._hands.do(journal.beginning(start, entry, claim))

    async def append(self, entry: Entry) -> Head:
        """Add *entry* to its run, all or nothing. When this returns, it survives a power cut."""
        return await self._hands.do(journal.appending(entry))

    async def claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        """Take the tree of the root *run_id*."""
        return await self._hands.do(lambda connection: claims.claim(connection, run_id, owner, seconds))

    async def renew(self, claim: Claim, seconds: float) -> Head:
        """Hold *claim* for *seconds* from now."""
        return await self._hands.do(lambda connection: claims.renew(connection, claim, seconds))

    async def release(self, claim: Claim) -> None:
        """Give *claim* back."""
        await self._hands.do(lambda connection: claims.release(connection, claim))

    async def load(self, run_id: str) -> StoredJournal | None:
        """All of a run's journal; None if it was never begun.

        StorageError: an entry is damaged, or of a newer concertino; the run and the entry are named.
        """
        return await self._hands.do(lambda connection: reading.load(connection, run_id))

    async def run(self, run_id: str) -> StoredRun | None:
        """One run; None if it was never begun."""
        found = await self._hands.do(lambda connection: reading.runs(connection, 1, run_id=run_id))
        return found[0] if found else None

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
        """Runs, newest first, for which all that is asked holds."""
        asked = {
            "conversation_id": conversation_id,
            "root_id": root_id,
            "user_id": user_id,
            "state": state,
            "roots": roots,
        }
        return await self._hands.do(lambda connection: reading.runs(connection, limit, **asked))

    async def messages(self, run_id: str) -> Sequence[StoredMessage]:
        """The messages of a run, in the order of their appending; none for a run that was never begun."""
        return await self._hands.do(lambda connection: reading.messages(connection, run_id))

    async def usage(self, root_id: str) -> Sequence[UsageRecord]:
        """All usage records of a run and its sub-agents, in the order of their booking."""
        return await self._hands.do(lambda connection: reading.usage(connection, root_id))

    async def usage_sums(
        self, by: Sequence[str], *, since: float | None = None, until: float | None = None
    ) -> Sequence[UsageSum]:
        """Sums over the records booked from *since* on and before *until*; costs are added exactly."""
        return await self._hands.do(lambda connection: reading.usage_sums(connection, by, since, until))

    async def waits(
        self, *, root_id: str | None = None, run_id: str | None = None, open: bool = True, limit: int = 100
    ) -> Sequence[Wait]:
        """Waits, the oldest first."""
        return await self._hands.do(lambda connection: waiting.waits(connection, root_id, run_id, open, limit))

    async def wait(self, key: str) -> Wait | None:
        """One wait."""
        return await self._hands.do(lambda connection: waiting.wait(connection, key))

    async def resolve(self, key: str, resolution: Resolution, *, run_id: str | None = None) -> Wait:
        """Answer a wait, and say how it stands now."""
        return await self._hands.do(lambda connection: waiting.resolve(connection, key, resolution, run_id))

    async def send(self, run_id: str, kind: CommandKind, text: str = "", by: str = "") -> None:
        """Leave a command for whoever runs *run_id*."""
        await self._hands.do(lambda connection: waiting.send(connection, run_id, kind, text, by))

    async def commands(self, run_id: str, after: int = 0) -> Sequence[Command]:
        """The commands to *run_id* after number *after*."""
        return await self._hands.do(lambda connection: waiting.commands(connection, run_id, after))

    async def set_budget(self, account: str, budget: Budget | None) -> None:
        """Give *account* a limit from now on, or none."""
        await self._hands.do(lambda connection: accounts.set_budget(connection, account, budget))

    async def accounts(self, names: Sequence[str]) -> Sequence[Account]:
        """Those of the accounts *names* that have a budget."""
        return await self._hands.do(lambda connection: accounts.accounts(connection, names))

    async def due(self, limit: int = 50, agents: Collection[str] | None = None) -> Due:
        """Expire the waits whose time has come, and say which trees, of these *agents*, should be taken up again."""
        return await self._hands.do(lambda connection: waiting.due(connection, limit, agents))

    async def sweep(self) -> int:
        """Erase what was kept for a time that is over."""
        return await self._hands.do(erasing.sweep)

    async def erase(self, *, user_id: str, organization_id: str | None = None) -> Erased:
        """Erase all that is known of a user but for the ledger."""
        return await self._hands.do(lambda connection: erasing.erase(connection, user_id, organization_id))

    async def remember(self, owner: str, text: str) -> Memory:
        """Keep *text* for *owner*; the same text again is the same memory, with its first time."""
        return await self._hands.do(lambda connection: memories.remember(connection, owner, text))

    async def recall(self, owner: str, query: str, limit: int = 5) -> Sequence[Memory]:
        """The memories of *owner* with words of *query*, the best first (BM25); without one, the newest."""
        return await self._hands.do(lambda connection: memories.recall(connection, owner, query, limit))

    async def close(self) -> None:
        """Finish what was asked for, then release what is held. May be called twice."""
        await self._hands.close()


BUSY_TIMEOUT = 10.0
"""Seconds to wait for another process that writes to the same file."""


class SqliteStore(SqlStore):
    """`Store` and `Memories` in one file, which several processes may use at once: `SqliteStore.open(path)`."""

    @classmethod
    async def open(cls, path: str | Path, *, busy_timeout: float = BUSY_TIMEOUT) -> Self:
        """The store at *path*; the file is made if it is missing, its folder is not.

        DatabaseVersionError: the file was written by a newer concertino, or it is no database of concertino;
        it is left as it was. StorageError: it cannot be opened.
        """
        worker = Worker(Path(path), busy_timeout)
        await worker.open()
        return cls(worker)


class MemoryStore(SqlStore):
    """`Store` and `Memories` that live as long as this object: the same SQL, without a file and without a thread."""

    def __init__(self) -> None:
        """A store with nothing in it. It is made at its first use."""
        super().__init__(Inline())
