"""Calls of agents and tools that processes of a target answer: this one takes the due ones, and starts their runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import Any

from ..errors import ConcertinoError, ConfigurationError, RunStateError
from ..ids import child_run_id, token
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.journal.data_policy import patterns_of
from ..orchestrator.journal.entries import Started
from ..scope import OPERATOR, Scope
from ..storage.base import Store
from ..storage.codec import decode_message
from ..storage.types import Caller, ClaimedCall, RunStart
from ..targets import called_tool
from ..waits import Resolution, Wait
from .fleet import GENERIC, Seat
from .known_agents import KnownAgents
from .live_run import LiveRun
from .turns import MAY_CHANGE
from .watchdog import BATCH

log = logging.getLogger("concertino")

PATIENCE = 600.0
"""Seconds for which a call is left to processes that have its agent: during an upgrade, only some have a new one."""
UNCLAIMED = 600.0
"""Seconds after which a due call fails that no process has taken: its target is misspelt, or has no process."""
_KEPT = 1_000
"""Most calls in the queue of busy processes that are kept from counting as unclaimed, at a time."""
_REMEMBERED = 1_000
AGAIN = 1.0
"""Seconds after which another process may take a call that is left."""


class AssignedCalls:
    """Takes calls of the targets of this process."""

    def __init__(
        self,
        store: Store,
        seat: Seat,
        agents: KnownAgents,
        start: Callable[[Chat, AgentConfig[Any], str], Awaitable[object]],
        wake: Callable[[], None],
        seconds: float,
    ) -> None:
        self._store, self._seat, self._agents, self._start, self._wake = store, seat, agents, start, wake
        self._seconds = seconds
        """After them, a call without a run is due again: the process that took it may have died."""
        self._left: dict[str, None] = {}
        """Keys of the calls whose leaving was logged, in that order."""
        self._ringing: set[asyncio.Task[None]] = set()
        self._keep_at = self._fail_at = 0.0
        """By the loop's clock; 0: at the first look, which sets them."""

    async def look(self) -> bool:
        """Start the runs of a batch of calls. Return whether others may be due."""
        targets = self._seat.targets()
        if targets is None:
            return await self._claim(None, self._seat.capacity(BATCH))
        limit = self._seat.capacity(BATCH)
        more = bool(targets) and await self._claim(targets, limit)
        now = asyncio.get_running_loop().time()
        if targets and (more or not limit) and now >= self._keep_at:
            self._keep_at = now + UNCLAIMED / 60
            await self._keep(targets)
        if not self._fail_at:
            self._fail_at = now + UNCLAIMED  # no call fails because the whole fleet has just been down
        if now >= self._fail_at:
            self._fail_at = now + UNCLAIMED / 10
            await self._fail_unclaimed(targets)
        return more

    async def _claim(self, targets: Collection[str] | None, limit: int) -> bool:
        """Start the runs of up to *limit* calls. Return whether others may be due."""
        if not limit:
            return False
        consumer = self._seat.consumer()
        calls = await self._store.claim_calls(OPERATOR, self._seconds, limit=limit, targets=targets, consumer=consumer)
        await self._seat.starts.begin({call.wait.key: partial(self._take, call) for call in calls})
        return len(calls) == limit

    async def _keep(self, targets: Collection[str]) -> None:
        """Keep the calls that wait for a free process of *targets* from counting as unclaimed."""
        consumer = self._seat.consumer()
        await self._store.claim_calls(OPERATOR, 0.0, limit=_KEPT, targets=targets, consumer=consumer)

    async def _fail_unclaimed(self, targets: Collection[str]) -> None:
        """Fail calls that no process has claimed for `UNCLAIMED` seconds, except those of this process's *targets*."""
        for call in await self._store.claim_calls(OPERATOR, self._seconds, limit=_KEPT, overdue=UNCLAIMED):
            target = call.wait.target
            if target in targets:
                await self._store.postpone_call(OPERATOR, call, 0.0)
                continue
            why = f"no process of target {target!r} has taken the call within {UNCLAIMED:g} s: start one"
            log.warning("call %s of tool %s: %s", call.wait.key, call.wait.tool, why)
            await self._refuse(call.scope, call.wait, why)

    def left(self, run: LiveRun, caller: Caller | None) -> None:
        """Wake the processes that continue after a run has left this one: of targets it calls, or of its caller."""
        targets = {wait.target for wait in run.waiting} - {""}
        for target in targets:
            self._seat.ring_target(target)
        if targets and (fleet := self._seat.fleet) is not None:
            for wait in run.waiting:
                try:
                    fleet.check_called(wait.target or GENERIC, f"tool {wait.tool!r} of agent {wait.agent_path!r}")
                except ConfigurationError as error:
                    log.warning("call %s: %s", wait.key, error)
                    self._begin(self._refuse_soon(run.scope, wait, str(error)))
        if caller is not None:
            self._begin(self._seat.wake_owners(caller.run_id))
        if targets or caller is not None:
            self._wake()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def close(self) -> None:
        """Wait until all are woken."""
        if self._ringing:
            await asyncio.wait(self._ringing)

    async def _take(self, call: ClaimedCall) -> None:
        """Start the run of a call. A call that gets no run for now is due again after a while."""
        key = call.wait.key
        try:
            if self._is_ours(call):
                known, name, policy = self._agents, call.task["agent"], call.task.get("policy")
                agent, _ = known.take(name) if policy is None else known.take_stored(name, policy)
                await self._start(chat_of(call), agent, child_run_id(key))
            else:
                self._report_left(key, call.task["agent"])
                await self._store.postpone_call(OPERATOR, call, AGAIN)
        except RunStateError as error:
            log.info("call %s: %s", key, error)  # it has its run, or needs none any more
        except MAY_CHANGE as error:
            log.warning("call %s was not started: %s", key, type(error).__name__)
        except ConfigurationError as error:
            await self._refuse(call.scope, call.wait, str(error))
        except Exception as error:  # noqa: BLE001 - one call must not keep the watchdog from the others
            log.warning("call %s was not started: %s", key, type(error).__name__)

    def _report_left(self, key: str, agent: str) -> None:
        """Log once that a call is left, though it is claimed again every second."""
        if key not in self._left:
            if len(self._left) >= _REMEMBERED:
                del self._left[next(iter(self._left))]
            self._left[key] = None
            log.warning("call %s is left to a process with agent %s", key, agent)

    def _is_ours(self, call: ClaimedCall) -> bool:
        """Return whether this process has the agent of a call. Raises `ConfigurationError` if none has it."""
        agent, target = call.task.get("agent"), call.wait.target
        if agent is None:
            raise ConfigurationError(f"the call has no task for target {target!r}")
        found = self._seat.has(agent, target)
        if not found and call.waited >= PATIENCE:
            if called_tool(agent) is not None:
                return True  # the tools that this process has give the reason
            raise ConfigurationError(f"no process of target {target!r} has agent {agent!r}: name it in [targets]")
        return found

    async def _refuse_soon(self, scope: Scope, wait: Wait, why: str) -> None:
        """Answer a call that has just been made. If the store fails, the call fails as an unclaimed one later."""
        try:
            await self._refuse(scope, wait, why)
        except ConcertinoError as error:
            log.warning("call %s was not refused: %s", wait.key, type(error).__name__)

    async def _refuse(self, scope: Scope, wait: Wait, why: str) -> None:
        """Answer a call that can never have a run."""
        failed = Resolution(verdict="failed", id=token(), content=why)
        await self._store.resolve(scope, wait.key, failed)
        await self._seat.wake_owners(wait.run_id)
        self._wake()


def chat_of(call: ClaimedCall) -> Chat:
    """Return the chat of the run that works for *call*."""
    task, wait = call.task, call.wait
    limits = dict(task["limits"])
    if "tool_call_limit" in task:
        limits["tool_calls"] = task["tool_call_limit"]
    caller = Caller(
        run_id=wait.run_id,
        key=wait.key,
        path=task["path"],
        payer=task["payer"],
        limits=limits,
        patterns=patterns_of(task["patterns"]),
    )
    return Chat(
        task["message"],
        model=task["model"],
        history=[decode_message(each) for each in task.get("cards", ())],
        scope=call.scope,
        conversation_id=task["conversation_id"],
        memory_enabled=task["memory"],
        personalization_enabled=task["personalization"],
        traceparent=task["traceparent"],
        caller=caller,
    )


def caller_of(start: RunStart, started: Started) -> Caller | None:
    """Return the caller of a stored root run; None if it works for no call. Entry 0 has the limits that follow."""
    if start.parent_id is None or start.parent_call is None:
        return None
    return Caller(
        run_id=start.parent_id,
        key=start.parent_call,
        path=start.agent_path,
        payer=started.payer,
        patterns=patterns_of(started.policy[4:]),
    )
