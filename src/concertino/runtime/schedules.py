"""`Schedules`: messages that are sent to an agent at given times, by one of the processes that have the agent."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, Protocol

from ..errors import ConcertinoError, ConfigurationError, DamagedDataError, StorageError, UnknownConversationError
from ..ids import digest, token
from ..orchestrator.agent import AgentConfig
from ..orchestrator.chat import Chat
from ..orchestrator.journal.data_policy import DataPolicy
from ..orchestrator.journal.patterns import redactor_of
from ..scope import OPERATOR, AnyScope, Scope
from ..storage.base import Store
from ..storage.schedule_types import Schedule
from .checks import check_text
from .conversation import Conversation
from .fleet import Seat
from .times import Cron, time_after, times_to_start
from .turn_input import check_input, decode_input, encode_input, in_conversation
from .watchdog import BACK_OFF, BATCH, LONGEST

log = logging.getLogger("concertino")

_PAGE = 50
"""Schedules that a look reads: some may be of the same conversation."""


class _Runs(Protocol):
    """The part of the runtime that schedules need."""

    store: Store

    async def conversation(
        self, scope: Scope, conversation_id: str | None = None, *, agent: AgentConfig[Any] | str | None = None
    ) -> Conversation: ...

    async def data_policy(self, scope: AnyScope, agent: str, run_id: str) -> DataPolicy: ...

    async def check(self, chat: Chat, agent: str) -> None: ...


class Schedules:
    """The schedules of a runtime: `await runtime.schedules.create(scope, "desk", "Report.", Cron("0 9 * * *"))`.

    At each time, the message is sent to a conversation, as by `Conversation.send`; a busy conversation queues it. The
    key of the message is derived from the schedule and the time, so it is sent once, even if several processes send it
    or are killed meanwhile. Every method may raise `StorageError`.
    """

    def __init__(self, runs: _Runs, seat: Seat) -> None:
        self._runs = runs
        self._seat = seat
        self._failures: dict[str, tuple[int, float]] = {}
        """By schedule: how often it could not start here, and when it is tried again."""

    async def create(
        self,
        scope: Scope,
        agent: str,
        message: str | Chat,
        when: datetime | Cron,
        *,
        conversation_id: str = "",
        key: str = "",
    ) -> Schedule:
        """Send *message* to *agent* at the times of *when*, in a conversation, or each time in a new one.

        A missing conversation is created. `Chat(budget=...)` limits each run. The message is stored until the schedule
        is deleted or has no further time. With a *key*, a second call for the scope returns the first schedule. Raises
        `ConfigurationError`.
        """
        if not isinstance(scope, Scope):
            raise ConfigurationError(f"a schedule belongs to a Scope, not to {scope!r:.80}")
        check_text(conversation_id=conversation_id, agent=agent, key=key)
        chat = Chat(message) if isinstance(message, str) else message
        check_input(chat)
        await self._runs.check(in_conversation(chat, scope, conversation_id), agent)
        if (redactor := redactor_of(tuple((await self._runs.data_policy(scope, agent, "")).patterns))) is not None:
            chat = redactor.chat(chat)
        if conversation_id:
            conversation = await self._runs.conversation(scope, conversation_id, agent=agent)
            if conversation.agent != agent:
                raise ConfigurationError(
                    f"conversation {conversation_id!r} is answered by {conversation.agent!r}, not by {agent!r}"
                )
        schedule = Schedule(
            id=id_of(scope, key) if key else f"sched_{token()}",
            tenant=scope.tenant,
            user=scope.user,
            agent=agent,
            input=encode_input(chat),
            conversation_id=conversation_id,
            **_settings(when),
        )
        schedule = dataclasses.replace(schedule, due_at=time_after(schedule, await store_time(self._runs.store)))
        added = await self._runs.store.add_schedule(scope, schedule)
        return schedule if added else await self._runs.store.schedule(scope, schedule.id) or schedule

    async def list(self, scope: AnyScope, limit: int = 100) -> Sequence[Schedule]:
        """Return the schedules that *scope* reaches, the oldest first."""
        return await self._runs.store.schedules(scope, limit=limit)

    async def pause(self, scope: AnyScope, schedule_id: str) -> bool:
        """Pause a schedule until `resume`. Return False if there is no such schedule."""
        return await self._move(scope, schedule_id, lambda _: None)

    async def resume(self, scope: AnyScope, schedule_id: str) -> bool:
        """Continue a paused schedule with its next time. Times during the pause do not count as missed."""
        now = await store_time(self._runs.store)
        return await self._move(scope, schedule_id, lambda found: found.due_at or time_after(found, now))

    async def delete(self, scope: AnyScope, schedule_id: str) -> bool:
        """Erase a schedule, but not the messages that it has sent. Return False if there is no such schedule."""
        return await self._runs.store.delete_schedule(scope, schedule_id)

    async def look(self) -> bool:
        """Send a batch of messages that are due, if this process has their agents. Return whether others may be due.

        Messages to one conversation are sent in the order in which they became due, those to others side by side.
        """
        if not (limit := self._seat.capacity(BATCH)):
            return False
        page = _PAGE + len(self._failures)  # postponed schedules hide no others
        now, due = await self._runs.store.due_schedules(OPERATOR, page, agents=self._seat.agents())
        if len(due) < page:  # it has all that are due
            self._failures = {each.id: self._failures[each.id] for each in due if each.id in self._failures}
        lines: dict[str, list[Schedule]] = {}
        for each in due:
            line = f"{_owner(each).key} {each.conversation_id or each.id}"
            if line not in self._seat.starts and monotonic() >= self._failures.get(each.id, (0, 0.0))[1]:
                lines.setdefault(line, []).append(each)
        await self._seat.starts.begin({line: partial(self._start_all, lines[line], now) for line in [*lines][:limit]})
        return bool(lines) and (len(lines) > limit or len(due) == page)

    async def _start_all(self, line: Sequence[Schedule], now: float) -> None:
        for schedule in line:
            await self._start(schedule, now)

    async def _start(self, schedule: Schedule, now: float) -> None:
        try:
            await self._send(schedule, now)
            self._failures.pop(schedule.id, None)
        except (DamagedDataError, UnknownConversationError) as error:
            log.warning("schedule %s is paused: %s", schedule.id, error)
            await self.pause(_owner(schedule), schedule.id)
        except StorageError:
            raise  # the watchdog reports it, and looks again
        except Exception as error:  # noqa: BLE001 - one schedule must not keep the watchdog from the others
            reason = str(error) if isinstance(error, ConcertinoError) else type(error).__name__
            tries, _ = self._failures.get(schedule.id, (0, 0.0))
            seconds = min(BACK_OFF * 2.0 ** min(tries, 32), LONGEST)
            self._failures[schedule.id] = tries + 1, monotonic() + seconds
            log.warning("schedule %s could not start, and is tried again in %g s: %s", schedule.id, seconds, reason)

    async def _send(self, schedule: Schedule, now: float) -> None:
        """Send the messages of the times that are due, then set the next time."""
        scope, chat = _owner(schedule), decode_input(schedule.input)
        for at in times_to_start(schedule, now):
            if schedule.conversation_id:
                conversation = await self._runs.conversation(scope, schedule.conversation_id)
            else:
                conversation = await self._runs.conversation(scope, f"{schedule.id}.{at:.0f}", agent=schedule.agent)
            await conversation.send(chat, key=f"{schedule.id}.{at:.0f}")
        following = time_after(schedule, now) if schedule.cron else None
        if following is None:
            await self._runs.store.delete_schedule(scope, schedule.id)
        else:
            await self._runs.store.move_schedule(scope, schedule.id, following, since=schedule.due_at)

    async def _move(self, scope: AnyScope, schedule_id: str, due: Callable[[Schedule], float | None]) -> bool:
        store = self._runs.store
        while (found := await store.schedule(scope, schedule_id)) is not None:
            if await store.move_schedule(scope, schedule_id, due(found), since=found.due_at):
                return True
        return False


async def store_time(store: Store) -> float:
    """Return the time of the store's clock, which decides when schedules are due and how old stored texts are."""
    return (await store.due_schedules(OPERATOR, 0))[0]


def id_of(scope: Scope, key: str) -> str:
    """Return the id of the schedule that *scope* makes with a key."""
    return f"sched_{digest(scope.key + key)[:24]}"


def _owner(schedule: Schedule) -> Scope:
    return Scope(schedule.tenant, schedule.user)


def _settings(when: datetime | Cron) -> dict[str, Any]:
    """Return the fields of a schedule for *when*. Raises `ConfigurationError`."""
    match when:
        case Cron():
            return {"cron": when.expression, "zone": when.zone, "missed": when.missed, "most": when.most}
        case datetime() if when.tzinfo is not None:
            return {"at": when.timestamp()}
        case _:
            raise ConfigurationError(f"invalid time {when!r:.80}: use a Cron, or a datetime with a time zone")
