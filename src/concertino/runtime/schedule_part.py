"""The part with which an agent sets, lists and removes schedules of its user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, ToolError
from ..messages import ToolCall
from ..number_checks import check_whole
from ..orchestrator.agent import Part
from ..orchestrator.chat import Chat
from ..orchestrator.outcome import Allow, Ask
from ..orchestrator.run import RunContext
from ..scope import Scope
from ..storage.schedule_types import Schedule
from ..tools.base import ToolContext
from .schedules import id_of
from .times import Cron, shortest_gap, zone_of

if TYPE_CHECKING:
    from ..storage.types import Budget
    from .runtime import Runtime

_SCANNED = 1_000
SET = "set_schedule"


class Scheduling(Part):
    """Offers the tools `set_schedule`, `list_schedules` and `remove_schedule`.

    A schedule belongs to the user of the run, and sends its message to the same agent: in the conversation in which it
    was set, or without one, each time in a new conversation. The agent sees and removes only the schedules of this user
    that send to it. *runtime* is a function, because a runtime is created after its agents. A user has at most *most*
    schedules with the agent, whose times are at least *every* apart. *budget* limits each run. A person approves each
    new schedule, unless *approve* is False. Times without a zone are in *zone*.

    Raises `ConfigurationError` if a setting is invalid.
    """

    def __init__(
        self,
        runtime: Callable[[], Runtime],
        *,
        most: int = 10,
        every: timedelta = timedelta(hours=1),
        zone: str = "UTC",
        budget: Budget | None = None,
        approve: bool = True,
    ) -> None:
        from .schedule_tools import schedule_tools  # noqa: PLC0415 - pydantic is slow to import

        check_whole("Scheduling", "most", most)
        if not isinstance(every, timedelta):
            raise ConfigurationError(f"Scheduling(every={every!r:.80}): use a timedelta")
        zone_of(zone)
        self._runtime, self._most, self._every, self._zone = runtime, most, every, zone
        self._budget, self._approve = budget, approve
        self._changing = asyncio.Lock()
        self.tools = schedule_tools(self)

    def authorize_tool_call(self, run: RunContext[Any], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        """Ask a person before a schedule is set."""
        return Ask() if self._approve and call.name == SET else Allow()

    async def set(self, context: ToolContext, message: str, when: datetime | Cron) -> Schedule:
        """Set a schedule for the run of *context*. Raises `ToolError` if a limit does not allow it."""
        owner, agent, runtime = _owner(context), _agent(context), self._runtime()
        if isinstance(when, Cron) and shortest_gap(when) < self._every.total_seconds():
            raise ToolError(f"the times are too close: leave at least {self._every} between them")
        async with self._changing:
            found = await self.found(context)
            known = id_of(owner, context.key)  # of an earlier attempt of this call
            if len(found) >= self._most and not any(each.id == known for each in found):
                raise ToolError(f"the user has {len(found)} schedules, the most that are allowed: remove one first")
            run = await runtime.store.run(owner, context.run_id)
            return await runtime.schedules.create(
                owner,
                agent,
                Chat(message, budget=self._budget),
                when,
                conversation_id="" if run is None else run.start.conversation_id,
                key=context.key,
            )

    async def found(self, context: ToolContext) -> Sequence[Schedule]:
        """Return the schedules of the user that send to the agent."""
        found = await self._runtime().schedules.list(_owner(context), _SCANNED)
        return [each for each in found if each.agent == _agent(context)]

    async def remove(self, context: ToolContext, schedule_id: str) -> bool:
        """Remove a schedule; False if the user has none of that id with the agent."""
        if not any(each.id == schedule_id for each in await self.found(context)):
            return False
        return await self._runtime().schedules.delete(_owner(context), schedule_id)

    def time_of(self, text: str) -> datetime:
        """Return a time of the future. Raises `ToolError`."""
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise ToolError(f"invalid time {text!r:.80}: use ISO 8601, such as 2027-01-31T09:00") from None
        if found.tzinfo is None:
            found = found.replace(tzinfo=zone_of(self._zone))
        if found <= datetime.now(UTC):
            raise ToolError(f"{found.isoformat()} is over; it is {datetime.now(UTC).isoformat(timespec='minutes')} now")
        return found

    def cron_of(self, text: str, zone: str) -> Cron:
        """Return repeated times. Raises `ToolError`."""
        try:
            return Cron(text, zone=zone or self._zone, missed="once")
        except ConfigurationError as error:
            raise ToolError(str(error)) from None


def _owner(context: ToolContext) -> Scope:
    if not context.scope.user:
        raise ToolError("nothing can be scheduled, because this conversation belongs to no user")
    return context.scope


def _agent(context: ToolContext) -> str:
    return context.agent_path.partition("/")[0]
