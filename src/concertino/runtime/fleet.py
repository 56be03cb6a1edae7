"""Fleets: processes that share the work on one store."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from functools import partial

from ..errors import ConcertinoError, ConfigurationError
from ..number_checks import check_whole
from ..providers import RateLimit
from ..records import record
from ..scope import OPERATOR
from ..storage.base import Store
from ..storage.call_store import Consumer
from ..storage.process import process_owner
from ..targets import SINGLE, called_tool, check_target
from ..waits import Wait
from .bus.base import Bell, MessageBell, wakeup
from .starts import SHARE, Starts

log = logging.getLogger("concertino")

GENERIC = "worker_generic"
"""The target of agents that no target names."""
COROUTINES = 16
"""The default number of runs that a worker has at the same time."""


@record(kw_only=True)
class Fleet:
    """The share of a process in the work on a store: `runtime.join(Fleet(...))`.

    Each agent belongs to one target, and each process takes the work of some targets. A message to an agent of another
    target is recorded, and *bell* wakes the processes that take it. A process that takes no target, such as a web
    process, only records messages.
    """

    bell: Bell
    targets: Mapping[str, Sequence[str]]
    """The agents of each target; all others belong to `worker_generic`."""
    takes: Collection[str] = ()
    """The targets whose work this process takes."""
    coroutines: int = COROUTINES
    """The most runs that this process has at the same time."""
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict)
    """The limits of the fleet's key by provider, such as a `SharedRateLimit`; a run's `Resources` may have others."""
    allowed_tools: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of the tools that the runs of an agent get, by agent; a run's `Resources` may have others."""
    publishes: bool = False
    """Whether *bell*, a `NatsBell`, passes on messages with the usage of each step that this process stores."""

    def __post_init__(self) -> None:
        check_whole("Fleet", "coroutines", self.coroutines)
        if self.publishes and not isinstance(self.bell, MessageBell):
            raise ConfigurationError(
                f"Fleet(publishes=True): {type(self.bell).__name__} carries no messages; use NatsBell"
            )
        owners: dict[str, str] = {}
        for target, agents in self.targets.items():
            check_target(target)
            for agent in agents:
                if owners.setdefault(agent, target) != target:
                    raise ConfigurationError(f"agent {agent!r} has two targets: {owners[agent]!r} and {target!r}")
        if twice := [target for target, times in Counter(self.takes).items() if times > 1]:
            raise ConfigurationError(f"target {twice[0]!r} is listed twice: list it once")
        unknown = set(self.takes) - {*self.targets, GENERIC}
        if unknown:
            known = ", ".join(sorted({*self.targets, GENERIC}))
            raise ConfigurationError(f"unknown target {min(unknown)!r}: choose from {known}")

    def check_called(self, target: str, caller: str) -> None:
        """Raise `ConfigurationError` if no process can serve *target*, which *caller* calls."""
        if target not in self.targets and target != GENERIC:
            known = ", ".join(sorted({*self.targets, GENERIC}))
            raise ConfigurationError(
                f"{caller} calls target {target!r}, which the fleet does not have: add it to [targets], or use one of "
                f"{known}"
            )

    def check_allowed(self, known: Collection[str]) -> None:
        """Raise `ConfigurationError` if `allowed_tools` names an agent that neither is *known* nor has a target.

        Where another process may have the agent, this is logged instead, and so is an agent that is missing in a
        process of its target.
        """
        for agent in sorted({*self.allowed_tools}.difference(known)):
            target = self.target_of(agent)
            if target != GENERIC or agent in self.targets.get(GENERIC, ()):
                if target in self.takes:
                    log.warning("allowed_tools names agent %r of target %s, which this process lacks", agent, target)
            elif GENERIC in self.takes:
                raise ConfigurationError(
                    f"allowed_tools names agent {agent!r}, which this process does not have: it has "
                    f"{', '.join(sorted(known)) or 'none'}. Correct the name, or name the agent in [targets]"
                )
            else:
                log.warning("allowed_tools names agent %r, which neither this process nor [targets] has", agent)

    def target_of(self, agent: str) -> str:
        """Return the target of an agent, or of a run that calls a tool."""
        if (called := called_tool(agent)) is not None:
            return called[0]
        return next((target for target, agents in self.targets.items() if agent in agents), GENERIC)


class Seat:
    """The share of a runtime in the work, in a fleet or alone: which work it takes, and which processes it wakes."""

    def __init__(
        self, store: Store, agents: Callable[[], Iterable[str]], busy: Callable[[], int], lease: float
    ) -> None:
        self.fleet: Fleet | None = None
        self.journals = store
        """The store as this process writes journals: it may publish what it stores."""
        self._store, self._agents, self._busy, self._lease = store, agents, busy, lease
        self._ends: list[Callable[[], None]] = []
        self._left = False
        self.starts = Starts(lease)
        self._owner = process_owner()
        self._held: dict[str, float] = {}
        """By target with a single consumer: the end of this process's lease, by the loop's clock."""

    def has(self, agent: str, target: str) -> bool:
        """Return whether this process has an agent for the calls of *target*; alone, it answers all as it can.

        Raises `ConfigurationError` if the fleet names the agent for another target.
        """
        if self.fleet is None:
            return True
        belongs = self.fleet.target_of(agent)
        if belongs not in (target, GENERIC):
            raise ConfigurationError(
                f"agent {agent!r} belongs to target {belongs!r}, not to {target!r}: name it in [targets]"
            )
        return belongs == target and agent in self._agents()

    def takes(self, agent: str) -> bool:
        """Return whether this process takes the work of an agent."""
        return self.fleet is None or self.fleet.target_of(agent) in (self.targets() or ())

    def agents(self) -> Collection[str]:
        """Return the agents whose work this process takes."""
        return [agent for agent in self._agents() if self.takes(agent)]

    def targets(self) -> Collection[str] | None:
        """Return the targets whose calls this process takes; None: all, if it works alone."""
        if self.fleet is None:
            return None
        now = asyncio.get_running_loop().time()
        return [each for each in self.fleet.takes if not each.startswith(SINGLE) or self._held.get(each, 0.0) > now]

    def consumer(self) -> Consumer | None:
        """Return this process as the only consumer of targets, for a claim; None if it is not.

        The store checks the leases again: this process may have been frozen since it checked them itself.
        """
        return Consumer(owner=self._owner, targets=list(self._held)) if self._held else None

    def capacity(self, most: int) -> int:
        """Return how many more runs this process may have now, up to *most*; none after `leave`."""
        if self._left:
            return 0
        if self.fleet is None:
            return most
        left = max(0, self.fleet.coroutines - self._busy() - len(self.starts))
        self.starts.were_short = self.starts.were_short or left < most
        return min(left, most)

    async def claim_targets(self) -> None:
        """Become the consumer of the targets that have only one. Raises `ConfigurationError` if one has another."""
        await self.renew()
        for target in self._single():
            if target not in self._held:
                holder = await self._claim_target(target)
                await self.leave_targets()
                raise ConfigurationError(
                    f"target {target!r} has a consumer, {holder!r}: stop that process, or wait {self._lease:g} s after "
                    "its death"
                )

    async def renew(self) -> None:
        """Renew the leases of targets, and claim targets that another process has left."""
        loop = asyncio.get_running_loop()
        for target in self._single():
            now = loop.time()
            if self._held.get(target, 0.0) - now > self._lease * 2 / 3:
                continue
            holder = await self._claim_target(target)
            if holder == self._owner:
                self._held[target] = now + self._lease
            elif self._held.pop(target, None) is not None:
                log.warning("target %s has another consumer now: %s", target, holder)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Renew the leases that this process has for a `with` block, while nothing else does."""
        ended = asyncio.Event()
        task = asyncio.create_task(self._renew_until(ended)) if self._held else None
        try:
            yield
        finally:
            ended.set()
            if task is not None:
                await asyncio.wait([task])  # not cancelled: a renewal must not come after the target was left

    async def _renew_until(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._lease / 3)
            for target in () if ended.is_set() else tuple(self._held):
                with suppress(ConcertinoError):  # the next attempt may succeed
                    if await self._claim_target(target) != self._owner:
                        self._held.pop(target, None)

    async def _claim_target(self, target: str) -> str:
        """Become or stay the consumer of *target*, unless another process is. Return the owner of the target now."""
        agents = () if self.fleet is None else self.fleet.targets.get(target, ())
        return await self._store.claim_target(OPERATOR, target, self._owner, self._lease, agents)

    async def leave_targets(self) -> None:
        """Let other processes be the consumer of targets that have only one."""
        while self._held:
            target, _ = self._held.popitem()
            await self._store.leave_target(OPERATOR, target, self._owner)

    def _single(self) -> list[str]:
        return [] if self.fleet is None else [each for each in self.fleet.takes if each.startswith(SINGLE)]

    def take(self, wake: Callable[..., None]) -> None:
        """Let *wake* be called when work of this process is due; with `rung=True`, at a ring of the bell."""
        self._left, self.starts.wake = False, wake
        if self.fleet is not None:
            self.starts.most_slow = max(1, self.fleet.coroutines // SHARE)
            ring = partial(wake, rung=True)
            self._ends += [self.fleet.bell.listen(wakeup(target), ring) for target in self.fleet.takes]

    def leave(self) -> None:
        """Take no more work."""
        self._left = True
        while self._ends:
            self._ends.pop()()

    def ring(self, agent: str) -> None:
        """Wake the processes that take the work of an agent."""
        if self.fleet is not None:
            self.fleet.bell.ring(wakeup(self.fleet.target_of(agent)))

    def ring_target(self, target: str) -> None:
        """Wake the processes of a target."""
        if self.fleet is not None:
            self.fleet.bell.ring(wakeup(target))

    async def wake_owners_of(self, wait: Wait) -> None:
        """Wake the processes that take the tree of *wait*."""
        if wait.run_id == wait.root_id and "/" not in wait.agent_path:  # the path of a root without a caller
            self.ring(wait.agent_path)
        else:
            await self.wake_owners(wait.root_id)

    async def wake_owners(self, run_id: str) -> None:
        """Wake the processes that take the tree of a run."""
        if self.fleet is not None and (run := await self._store.run(OPERATOR, run_id)) is not None:
            if run.start.root_id != run_id:
                run = await self._store.run(OPERATOR, run.start.root_id) or run
            self.ring(run.start.agent)
