"""The watchdog: resumes runs that dead processes left and runs that were answered, and gives up on poison runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from ..errors import ConcertinoError, ConfigurationError, DamagedDataError, RunStateError, StorageError
from ..number_checks import check_amount, check_whole
from ..orchestrator.lifecycle.seal import seal
from ..scope import OPERATOR, AnyScope
from ..storage.base import Store
from ..storage.process import process_owner
from ..storage.types import Claim, Due, StoredRun
from .fleet import Seat
from .live_run import LiveRun

log = logging.getLogger("concertino")

SWEEP = 1.0
"""Seconds between two passes of the watchdog."""
TRIES = 5
"""The number of times that a run is resumed without making progress. Then it is a dead letter."""
BACK_OFF = 1.0
"""Seconds before a run is resumed that its last resumption did not get any further; twice as many after each further
try."""
BATCH = 8
"""Most trees, queued turns or calls that are claimed at once: other processes may be free to start the next ones
sooner, and none of the three waits for all of another."""
_HEAD_START = 0.02
"""Seconds for which other work waits after a bell, so that it delays no answer of the run that was resumed."""
_QUIET = 0.02
"""Seconds from a look for a ring that found nothing to the next: in a busy fleet, another worker is often faster."""
LONGEST = 300.0
"""Most seconds before a run or a turn is tried again that got no resources, such as a model of its tenant."""


class _Runs(Protocol):
    """The part of the runtime that the watchdog needs."""

    def live(self, scope: AnyScope, run_id: str) -> LiveRun | None: ...

    async def resume(self, scope: AnyScope, run_id: str) -> LiveRun: ...

    async def _resume_claimed(self, claim: Claim, since: float) -> LiveRun: ...

    def knows(self, agent: str) -> bool: ...


class Watchdog:
    """Looks after the trees in one store.

    A tree whose process died is resumed. A tree that makes no progress is tried again after a delay that doubles, up to
    *tries* times: its process may have died of it. Such trees are resumed one at a time, so that none fails for its
    neighbor. After the last try the tree is a dead letter until it is retried or stopped. A tree whose journal is
    damaged is a dead letter at once. A tree that works for a call of another one fails instead, since
    nothing else would answer the call. A tree that gets no resources waits as long as it takes.
    """

    def __init__(
        self,
        store: Store,
        runs: _Runs,
        starters: Sequence[Callable[[], Awaitable[object]]],
        seat: Seat,
        *,
        lease: float,
        sweep: float,
        tries: int,
        back_off: float,
    ) -> None:
        check_amount("Runtime", "sweep", sweep, "seconds above 0")
        check_whole("Runtime", "tries", tries)
        check_amount("Runtime", "back_off", back_off, "seconds of at least 0", zero=True)
        self._store = store
        self._runs = runs
        self._starters = starters
        self._seat = seat
        self._lease = lease
        self._sweep = sweep
        self._tries = tries
        self._back_off = back_off
        self._suspect = ""
        self.claiming = asyncio.Lock()
        """Held while trees are claimed."""
        self._stopped = asyncio.Event()
        self._woken = asyncio.Event()
        self._urgent = asyncio.Event()
        """Set if more than a ring has woken the task."""
        self._failures: dict[str, int] = {}
        """By tree: how often it got no resources since it was last resumed here."""

    def start(self) -> asyncio.Task[None]:
        """Start to look, and to erase what is due, every *sweep* seconds until `stop`."""
        # Here, because `stop` may be called before the task begins; new ones, because this may be another event loop.
        self._stopped, self._woken, self._urgent = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.claiming = asyncio.Lock()
        return asyncio.create_task(self._run(), name="concertino watchdog")

    async def _run(self) -> None:
        now, swept, woken, rung = asyncio.get_running_loop().time, float("-inf"), False, False
        while not self._stopped.is_set():
            began, begun = now(), self._seat.starts.begun
            try:
                await self._look_and_stop(woken=woken)
                if now() - swept >= self._sweep:  # not for each bell
                    swept = now()
                    await self._store.sweep(OPERATOR)
            except ConcertinoError as error:
                log.warning("the watchdog failed: %s: %s", type(error).__name__, error)
            if rung and self._seat.starts.begun == begun:
                await _is_set_before(began + _QUIET, self._urgent)
            woken = await _is_set_before(now() + self._sweep, self._woken)
            rung = woken and not self._urgent.is_set()
            self._woken.clear()
            self._urgent.clear()

    async def _look_and_stop(self, *, woken: bool) -> None:
        """Look, and stop runs meanwhile: much work may be due, or a start may be slow."""
        looking = asyncio.create_task(self.look(woken=woken), name="concertino look")
        while not (await asyncio.wait([looking], timeout=self._sweep))[0]:
            with suppress(ConcertinoError):  # the look has the same problem, and reports it
                self._request_stops(await self._store.due(OPERATOR, 0, ()))
        looking.result()

    def stop(self) -> None:
        """End the task. A run or turn that it is starting is not interrupted: its start would be cancelled for good."""
        self._stopped.set()
        self.wake()

    def wake(self, *, rung: bool = False) -> None:
        """Let the task look at once; for a ring, not before `_QUIET` has passed if the last ring brought nothing."""
        if not rung:
            self._urgent.set()
        self._woken.set()

    async def look(self, *, only_trees: bool = False, woken: bool = False) -> None:
        """Resume, stop or postpone the trees that are due; unless *only_trees*, start what is scheduled or queued.

        If *woken*, a tree is probably due, and the first batch is claimed before anything else is read.
        """
        now, owner = asyncio.get_running_loop().time, process_owner()
        trees, end = False, now() + _HEAD_START
        while woken:
            resumed, trees = await self._resume_due(owner)
            if only_trees or trees or not resumed:
                break
            woken = await _is_set_before(end, self._woken) and not self._stopped.is_set()
            if woken:
                self._woken.clear()
        others: Sequence[Callable[[], Awaitable[object]]] = () if only_trees else self._starters
        again = now()
        while True:
            await self._seat.renew()  # a backlog of quick runs may last longer than the leases of targets
            if now() >= again and not self._stopped.is_set():  # nor do stops and doubtful trees wait for all of it
                trees = await self._look_closer(owner) or trees
                again = now() + self._sweep
            if not (trees or others):
                return
            if trees:
                _, trees = await self._resume_due(owner)  # a batch of each in turn
            others = [start for start in others if await start()]

    async def _look_closer(self, owner: str) -> bool:
        """Take doubtful trees one by one, and stop runs. Return whether other trees are due."""
        agents, consumer = self._seat.agents(), self._seat.consumer()
        due = await self._store.due(OPERATOR, agents=agents, owner=owner, consumer=consumer)
        self._request_stops(due)
        for root_id in due.doubtful:
            if self._stopped.is_set():
                return False
            live = self._runs.live(OPERATOR, root_id)
            if (live is None or live.done) and root_id not in self._seat.starts and self._seat.capacity(1):
                await self._seat.starts.begin({root_id: partial(self._take, root_id)})
        return len(due.ready) + len(due.orphaned) > len(due.doubtful)

    def _request_stops(self, due: Due) -> None:
        for root_id in due.stopping:
            live = self._runs.live(OPERATOR, root_id)
            if live is not None and not live.done:
                live.request_stop()

    async def _resume_due(self, owner: str) -> tuple[int, bool]:
        """Claim a batch of trees, and resume them.

        Return how many there were, and whether others may be due; after a failure, nothing more is claimed.
        """
        async with self.claiming:
            if (limit := self._seat.capacity(BATCH)) <= 0:
                return 0, False
            since = asyncio.get_running_loop().time()
            agents, consumer = self._seat.agents(), self._seat.consumer()
            due = self._store.claim_due(OPERATOR, owner, self._lease, limit=limit, agents=agents, consumer=consumer)
            claiming = self._seat.starts.look(due, "claim of due runs")
            try:
                works = {}
                for claim in await asyncio.shield(claiming):
                    if claim.root_id in self._seat.starts:  # a start that has failed is about to set it aside
                        await self._store.release(claim)
                    else:
                        works[claim.root_id] = partial(self._begin, claim, since)
                began = await self._seat.starts.begin(works)
            except asyncio.CancelledError:  # with the caller of `approve`
                self._seat.starts.look(self._give_back(claiming), "release of claimed runs")
                raise
            return len(works), len(works) == limit and all(began)

    async def _give_back(self, claiming: Awaitable[Sequence[Claim]]) -> None:
        """Release what is claimed and was not started, and look again."""
        for claim in await claiming:
            live = self._runs.live(OPERATOR, claim.root_id)
            if (live is None or live.done) and claim.root_id not in self._seat.starts:
                await self._store.release(claim)
        self.wake()

    async def settled(self, root_id: str) -> None:
        """Wait until no look that is in progress may resume a tree."""
        async with self.claiming:
            pass
        await self._seat.starts.ended(root_id)

    async def _begin(self, claim: Claim, since: float) -> bool:
        """Resume a claimed tree, and return whether that succeeded; release it if the watchdog was stopped."""
        if self._stopped.is_set():
            await self._store.release(claim)
            return False
        return await self._guarded(claim.root_id, self._runs._resume_claimed(claim, since))

    async def _take(self, root_id: str) -> None:
        """Stop, postpone or resume a doubtful tree."""
        await self._guarded(root_id, self._decide(root_id))

    async def _decide(self, root_id: str) -> None:
        stored = await self._store.run(OPERATOR, root_id)
        if stored is None or not self._runs.knows(stored.start.agent):
            return  # another process has this agent
        if stored.stop:
            await seal(self._seat.journals, stored.start.scope, root_id, "cancelled", "the run was stopped")
        elif stored.tries and not stored.reason:
            await self._postpone(stored, f"its process ended {stored.tries} times without progress")
        elif not stored.tries or await self._is_only_suspect(root_id):
            await self._runs.resume(stored.start.scope, root_id)

    async def _guarded(self, root_id: str, work: Awaitable[object]) -> bool:
        """Do *work* on a tree, and set the tree aside if that fails. Return whether it succeeded."""
        try:
            await work
            self._failures.pop(root_id, None)
        except RunStateError as error:
            log.info("run %s was not resumed: %s", root_id, error)
        except DamagedDataError as error:
            log.warning("run %s could not be resumed: %s", root_id, type(error).__name__)
            await self._set_aside(root_id, str(error), None)
        except StorageError as error:
            log.warning("run %s could not be resumed: %s", root_id, type(error).__name__)
        except Exception as error:  # noqa: BLE001 - one run must not keep the watchdog from the others
            reason = str(error) if isinstance(error, ConfigurationError) else type(error).__name__
            log.warning("run %s could not be resumed: %s", root_id, reason)
            failures = self._failures[root_id] = self._failures.get(root_id, 0) + 1
            await self._set_aside(root_id, reason, min(self._back_off * 2.0 ** min(failures - 1, 32), LONGEST))
        else:
            return True
        return False

    async def _is_only_suspect(self, root_id: str) -> bool:
        """Return whether no other tree that may kill its process is starting or in progress here."""
        if self._suspect != root_id and self._suspect in self._seat.starts:
            return False
        other = self._runs.live(OPERATOR, self._suspect)
        if other is not None and not other.done and self._suspect != root_id:
            stored = await self._store.run(OPERATOR, self._suspect)
            if stored is not None and stored.tries:
                return False
        self._suspect = root_id
        return True

    async def _postpone(self, stored: StoredRun, reason: str) -> None:
        """Try again later, or never if every try is used up."""
        root_id = stored.start.run_id
        if stored.tries >= self._tries:
            await self._give_up(stored, reason)
            return
        seconds = self._back_off * 2.0 ** (stored.tries - 1)
        await self._store.postpone(stored.start.scope, root_id, reason=reason, seconds=seconds)
        log.warning("run %s waits %g s: %s", root_id, seconds, reason)

    async def _give_up(self, stored: StoredRun, reason: str) -> None:
        """Make a tree a dead letter, or end it if it works for a call: its end answers the call."""
        root_id, scope = stored.start.run_id, stored.start.scope
        if stored.start.parent_id is None:
            await self._store.postpone(scope, root_id, reason=reason, seconds=None)
            log.warning("run %s is a dead letter: %s", root_id, reason)
        else:
            await seal(self._seat.journals, scope, root_id, "failed", reason)
            log.warning("run %s has failed, and so has the call that it worked for: %s", root_id, reason)
            await self._seat.wake_owners(stored.start.parent_id)
            self.wake()

    async def _set_aside(self, root_id: str, reason: str, seconds: float | None) -> None:
        """Postpone a tree that could not be resumed, unless another process has it now."""
        try:
            stored = await self._store.run(OPERATOR, root_id)
            if stored is not None and stored.end is None and seconds is None:
                await self._give_up(stored, reason)
            elif stored is not None and stored.end is None:
                await self._store.postpone(stored.start.scope, root_id, reason=reason, seconds=seconds)
        except ConcertinoError as failure:
            log.warning("run %s could not be postponed: %s", root_id, type(failure).__name__)


async def _is_set_before(time: float, event: asyncio.Event) -> bool:
    """Wait until *event* is set, or until *time* of the event loop, and return whether it is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), time - asyncio.get_running_loop().time())
    return event.is_set()
