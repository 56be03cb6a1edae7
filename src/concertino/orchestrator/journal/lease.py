"""The tree of a run and its sub-agents: what they share, and the lease under which this process writes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from ...errors import StaleClaimError, StorageError
from ...events import StoppedWork, StopReceipt
from ...storage.base import Store
from ...storage.types import Claim, StoredEvents, StoredJournal
from ...usage import UsageRecord
from .data_policy import DataPolicy

log = logging.getLogger("concertino")

LEASE = 30.0
"""Seconds for which a process claims a tree. It renews the lease after a third of them; when the lease has ended,
another process may claim the tree."""
STOP_DEADLINE = 5.0
"""Seconds that cancelled work has to end, unless the caller of `stop` chooses others. Work that is still running then
is abandoned."""
_SETTLE = 1.0

Claimed = tuple[Claim, float, StoredJournal]
"""A claim on a tree to resume, when it was requested by the loop's clock, and the root's journal as read since then."""


def _nothing() -> None:
    """Read nothing."""


class Ledger:
    """The usage records of a run tree: one per attempt, booked once."""

    __slots__ = ("_earlier", "_records", "_root", "_unread")

    def __init__(self) -> None:
        self._records: dict[str, UsageRecord] = {}
        self._earlier: dict[str, UsageRecord] = {}
        self._root, self._unread = "", _nothing

    def __len__(self) -> int:
        return len(self._records)

    def book(self, record: UsageRecord) -> bool:
        """Add *record*. Return False, and change nothing, if its id is booked already."""
        return self._records.setdefault(record.id, record) is record

    def newest(self, start: int) -> Iterator[UsageRecord]:
        """Yield the records from the *start*-th on, backwards."""
        return islice(reversed(self._records.values()), len(self._records) - start)

    def leave_out(self, root: str, read: Callable[[], None]) -> None:
        """Do without earlier records of the agent at the path *root* until *read* passes them to `complete`."""
        self._root, self._unread = root, read

    def complete(self, records: Iterable[UsageRecord]) -> None:
        """Take in all *records* of the tree, in order, also what was not read."""
        self._root, self._unread, self._earlier = "", _nothing, {each.id: each for each in records}

    def records(self, path: str, start: int | None = None) -> tuple[UsageRecord, ...]:
        """Return the records of the agent at *path* and its sub-agents.

        With *start*, those from the *start*-th on of the records that were read or booked by this process.
        """
        below = path + "/"
        if start is None and path == self._root:
            self._unread()
        records: Iterable[UsageRecord] = self._records.values()
        if start is None and self._earlier:
            records = (self._earlier | self._records).values()
        elif start:
            records = islice(records, start, None)
        return tuple([r for r in records if r.agent_path == path or r.agent_path.startswith(below)])


class Tree:
    """Shared by a root run and all runs below it."""

    __slots__ = (
        "_below",
        "_loop",
        "_pending",
        "_renewal",
        "_stopped",
        "budgeted",
        "claim",
        "content_index",
        "ended",
        "flush_events",
        "lease",
        "ledger",
        "lost",
        "on_stop",
        "parked",
        "patience",
        "policies",
        "root_id",
        "runs_below",
        "shared",
        "store",
        "stored_events",
        "valid_until",
    )

    def __init__(self, root_id: str, store: Store | None, lease: float) -> None:
        self.root_id = root_id
        self.store = store
        self.content_index = 0
        """The content index, which all agents of the tree share."""
        self.ledger = Ledger()
        self.claim: Claim | None = None
        self.lease = lease
        self.valid_until = 0.0
        """The end of the lease by the loop's clock, which continues while the process is frozen."""
        self.budgeted = False
        """Whether any of the accounts has a budget; without one nothing is counted for it."""
        self.policies: dict[str, DataPolicy] = {}
        """By run, for observers, which see the events of all runs."""
        self.shared: dict[Callable[[], Any], Any] = {}
        """State that the tools of the tree share, by its factory."""
        self.ended = False
        """Whether the end of the root is recorded."""
        self.parked = False
        """Whether work that is cancelled now stays open, to be resumed later."""
        self.patience = STOP_DEADLINE
        self.lost: Exception | None = None
        """The error with which the lease was lost."""
        self.flush_events: Callable[[str, int], None] | None = None
        """Passes the events so far to the store, before an entry of a run's journal; None without a log of events."""
        self.stored_events: tuple[int, Sequence[StoredEvents]] | None = None
        """The log of events of a resumed tree: the last number, and the rows whose work was undone."""
        self.runs_below = False
        """Whether runs below the root had not ended when the tree was resumed."""
        self.on_stop: Callable[[], None] | None = None
        """Cancels the root run; set by the engine that drives it."""
        self._below: set[asyncio.Task[Any]] = set()
        """The tasks of sub-agents that have not ended."""
        self._stopped: dict[str, list[StoppedWork]] = {"stopped": [], "not_stopped": [], "unknown": []}
        self._loop = asyncio.get_running_loop()
        self._renewal: asyncio.TimerHandle | None = None
        self._pending: asyncio.Task[Any] | None = None

    # -- the lease -----------------------------------------------------------------------------------------------

    def start_lease(self, claim: Claim, since: float) -> None:
        """Keep *claim*, requested at *since*, valid until `release`."""
        self.claim, self.valid_until = claim, since + self.lease
        self._schedule()

    async def confirm(self) -> None:
        """Confirm before an effect that the tree still belongs to this process, if the lease may have ended.

        Raises `StaleClaimError` if it does not.
        """
        if self.store is None or self.claim is None or self._loop.time() < self.valid_until:
            return
        try:
            await self._renew(self.store, self.claim)
        except StaleClaimError as error:
            self.lose(error)
            raise

    async def release(self) -> None:
        """Release the claim, unless the root's end has. A failure is logged: the lease ends by itself."""
        self._cancel_renewal()
        if self.claim is not None and self.store is not None and self.lost is None and not self.ended:
            if self.flush_events is not None:
                self.flush_events("", 0)  # the next claim ends this process's right to write
            try:
                await self.store.release(self.claim)
            except StorageError as error:
                log.warning("run %s: its claim could not be released: %s", self.root_id, type(error).__name__)

    def lose(self, error: Exception) -> None:
        """Stop all work without writing anything: another process has claimed the tree."""
        if self.lost is None:
            log.warning("run %s stops here, because another process has claimed it: %s", self.root_id, error)
        self.lost = self.lost or error
        self.parked = True
        self._cancel_renewal()
        if self.on_stop is not None:
            self.on_stop()

    def request_stop(self) -> None:
        """Cancel the run: a stop was requested."""
        if self.on_stop is not None and not self.parked:
            stop, self.on_stop = self.on_stop, None
            stop()

    def _cancel_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def _schedule(self) -> None:
        self._renewal = self._loop.call_later(self.lease / 3, self._start_renewal)

    def _start_renewal(self) -> None:
        self._pending = self._loop.create_task(self._renew_in_background())

    async def _renew(self, store: Store, claim: Claim) -> None:
        since = self._loop.time()
        if (await store.renew(claim, self.lease)).stop:
            self.request_stop()
        self.valid_until = since + self.lease

    async def _renew_in_background(self) -> None:
        assert self.store is not None
        assert self.claim is not None
        try:
            await self._renew(self.store, self.claim)
        except StaleClaimError as error:
            self.lose(error)
            return
        except StorageError as error:
            log.warning("run %s: its lease could not be renewed: %s", self.root_id, type(error).__name__)
        if self._renewal is not None:
            self._schedule()

    # -- stopping ------------------------------------------------------------------------------------------------

    def add_task(self, run_id: str, task: asyncio.Task[Any]) -> None:
        """Register the task of a sub-agent, or of its end."""
        if run_id != self.root_id:
            self._below.add(task)

    def remove_task(self, task: asyncio.Task[Any]) -> None:
        """Unregister a task that has ended."""
        self._below.discard(task)

    async def settle(self, run_id: str) -> None:
        """Wait briefly for sub-agents that are still ending, since ending the root ends them in the store too.

        Their parents have waited for them already, unless a second cancellation cut that wait short.
        """
        until = self._loop.time() + min(self.patience, _SETTLE)
        while run_id == self.root_id and self._below and (left := until - self._loop.time()) > 0:
            done, _ = await asyncio.wait(self._below, timeout=left)
            self._below -= done

    def note_stopped(self, how: Literal["stopped", "not_stopped", "unknown"], work: StoppedWork) -> None:
        """Add *work* to the receipt."""
        self._stopped[how].append(work)

    def receipt(self) -> StopReceipt:
        """Return the receipt of everything that was stopped."""
        return StopReceipt(**{how: tuple(works) for how, works in self._stopped.items()})
