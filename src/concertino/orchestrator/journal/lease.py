"""The tree of a run and its sub-agents: what they share, and the claim by which this process may write them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ...errors import StaleClaimError, StorageError
from ...events import StoppedWork, StopReceipt
from ...storage.base import Store
from ...storage.types import Claim, Head
from ...tools.base import Session
from ...usage import UsageRecord
from ..state import ContentIndex
from .data_policy import DataPolicy

log = logging.getLogger("concertino")

LEASE = 30.0
"""Seconds for which a tree is claimed; renewed at a third of it. Another process may take it over after them."""
_SETTLE = 1.0
STOP_DEADLINE = 5.0
"""Seconds that cancelled work may take to end, unless somebody who stops the run says otherwise; what has not ended by
then is left behind."""


class Tree:
    """One for each root run; all runs below it have the same."""

    __slots__ = (
        "_below",
        "_keeper",
        "_loop",
        "_pending",
        "_stopped",
        "accounts",
        "budgeted",
        "claim",
        "index",
        "lease",
        "lost",
        "on_stop",
        "parked",
        "patience",
        "policies",
        "root_id",
        "store",
        "until",
    )

    def __init__(self, root_id: str, store: Store | None, session: Session, lease: float) -> None:
        self.root_id = root_id
        self.store = store
        self.index = ContentIndex()
        self.claim: Claim | None = None
        self.lease = lease
        self.until = 0.0
        """When the claim surely still holds, by the loop's clock, which goes on where the process is frozen."""
        self.accounts = accounts_of(root_id, session.user_id, session.organization_id)
        self.budgeted = False
        """Whether any of the accounts has a budget: else nothing is counted for one."""
        self.policies: dict[str, DataPolicy] = {}
        """By run, for the sinks that see the events of all of them."""
        self.parked = False
        """Whether what is cancelled now is left as it is, to be taken up later."""
        self.patience = STOP_DEADLINE
        self._below: set[asyncio.Task[Any]] = set()
        """The tasks of sub-agents that have not ended, and of their ends."""
        self.lost: Exception | None = None
        self.on_stop: Callable[[], None] | None = None
        """Cancels the run; set by whoever drives it."""
        self._stopped: dict[str, list[StoppedWork]] = {"stopped": [], "not_stopped": [], "unknown": []}
        self._loop = asyncio.get_running_loop()
        self._keeper: asyncio.TimerHandle | None = None
        self._pending: asyncio.Task[Any] | None = None

    # -- the claim -----------------------------------------------------------------------------------------------

    def hold(self, claim: Claim, since: float) -> None:
        """Keep *claim*, which was asked for at *since*, alive until `let_go`."""
        self.claim, self.until = claim, since + self.lease
        self._arm()

    async def confirm(self) -> None:
        """Make sure that this process still has the tree: before each effect, where it was silent for too long.

        Raises `StaleClaimError` if it has not.
        """
        if self.store is None or self.claim is None or self._loop.time() < self.until:
            return
        try:
            await self._prolong(self.store, self.claim)
        except StaleClaimError as error:
            self.lose(error)
            raise

    async def _prolong(self, store: Store, claim: Claim) -> None:
        since = self._loop.time()
        self.heed(await store.renew(claim, self.lease))
        self.until = since + self.lease

    async def let_go(self) -> None:
        """Give the claim back. A store that fails at it is logged: the claim ends by itself."""
        self.unhold()
        if self.claim is not None and self.store is not None and self.lost is None:
            try:
                await self.store.release(self.claim)
            except StorageError as error:
                log.warning("run %s: its claim could not be released: %s", self.root_id, type(error).__name__)

    def unhold(self) -> None:
        """Renew the claim no longer."""
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None

    def _arm(self) -> None:
        self._keeper = self._loop.call_later(self.lease / 3, self._renew)

    def _renew(self) -> None:
        self._pending = self._loop.create_task(self._renewed())

    async def _renewed(self) -> None:
        assert self.store is not None and self.claim is not None
        try:
            await self._prolong(self.store, self.claim)
        except StaleClaimError as error:
            self.lose(error)
            return
        except StorageError as error:
            log.warning("run %s: its claim could not be renewed: %s", self.root_id, type(error).__name__)
        if self._keeper is not None:
            self._arm()

    def lose(self, error: Exception) -> None:
        """Somebody else has the tree now: stop everything here, and write nothing."""
        self.lost = self.lost or error
        self.parked = True
        self.unhold()
        if self.on_stop is not None:
            self.on_stop()

    def heed(self, head: Head) -> None:
        """Stop, if somebody has asked for it."""
        if head.stop and self.on_stop is not None and not self.parked:
            stop, self.on_stop = self.on_stop, None
            stop()

    # -- stopping ------------------------------------------------------------------------------------------------

    def going_on_in(self, run_id: str, task: asyncio.Task[Any]) -> None:
        """The run is not over before *task* is done."""
        if run_id != self.root_id:
            self._below.add(task)

    def done_in(self, task: asyncio.Task[Any]) -> None:
        """What went on in *task* has ended."""
        self._below.discard(task)

    async def settle(self, run_id: str) -> None:
        """If this is the root: wait for sub-agents whose end is under way, for it ends in the store what has not ended.

        They were waited for before, unless somebody who was tired of it cancelled a second time.
        """
        until = self._loop.time() + min(self.patience, _SETTLE)
        while run_id == self.root_id and self._below and (left := until - self._loop.time()) > 0:
            done, _ = await asyncio.wait(self._below, timeout=left)
            self._below -= done

    def note_stopped(self, how: str, work: StoppedWork) -> None:
        """For the receipt: *how* is `stopped`, `not_stopped` or `unknown`."""
        self._stopped[how].append(work)

    def receipt(self) -> StopReceipt:
        """What became of all that was going on."""
        return StopReceipt(**{how: tuple(works) for how, works in self._stopped.items()})


def accounts_of(root_id: str, user_id: str, organization_id: str) -> tuple[str, ...]:
    """The accounts that a run tree draws on: its own, its user's and its organization's."""
    names = [f"run:{root_id}"]
    if user_id:
        names.append(user_account(user_id, organization_id))
    if organization_id:
        names.append(organization_account(organization_id))
    return tuple(names)


def user_account(user_id: str, organization_id: str = "") -> str:
    """The name of a user's account: in an organization, or of the sessions that name none.

    The same user has another account in each organization, and a budget holds for that one account alone.
    """
    return f"user:{organization_id}/{user_id}"


def organization_account(organization_id: str) -> str:
    """The name of an organization's account, which all its users draw on."""
    return f"organization:{organization_id}"


class Ledger:
    """The records of one run and of all runs below it."""

    __slots__ = ("_by_id", "_parent")

    def __init__(self, parent: Ledger | None = None) -> None:
        self._by_id: dict[str, UsageRecord] = {}
        self._parent = parent

    @property
    def records(self) -> tuple[UsageRecord, ...]:
        """All records, in the order of booking."""
        return tuple(self._by_id.values())

    def book(self, record: UsageRecord) -> bool:
        """Add *record* here and in all ledgers above. False, and nothing done, if its id is there already."""
        if self._by_id.setdefault(record.id, record) is not record:
            return False
        if self._parent is not None:
            self._parent.book(record)
        return True
