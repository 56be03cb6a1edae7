"""The tools of the part `Scheduling`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol

from pydantic import Field

from ..errors import ToolError
from ..storage.schedule_types import Schedule
from ..tools.base import Tool, ToolContext
from ..tools.function import tool
from .times import Cron

_TASK = Annotated[str, Field(min_length=1, max_length=4_000, description="The whole task: nothing else is read then")]
_TIME = Annotated[str, Field(description="For one time: ISO 8601, such as 2027-01-31T09:00")]
_FIELDS = Annotated[str, Field(description="For repeated times: five fields of cron, such as '0 9 * * mon-fri'")]
_ZONE = Annotated[str, Field(description="IANA time zone of cron, such as Europe/Berlin")]


class _Schedules(Protocol):
    """The schedules of a user with an agent."""

    async def set(self, context: ToolContext, message: str, when: datetime | Cron) -> Schedule: ...

    async def found(self, context: ToolContext) -> Sequence[Schedule]: ...

    async def remove(self, context: ToolContext, schedule_id: str) -> bool: ...

    def time_of(self, text: str) -> datetime: ...

    def cron_of(self, text: str, zone: str) -> Cron: ...


def schedule_tools(schedules: _Schedules) -> tuple[Tool, ...]:
    """Return the tools that set, list and remove schedules."""

    @tool(effect="idempotent", exclusive=True, selection_rule="when the user asks for something at a later time")
    async def set_schedule(
        message: _TASK, context: ToolContext, at: _TIME = "", cron: _FIELDS = "", zone: _ZONE = ""
    ) -> dict[str, Any]:
        """Send yourself a task at a later time, once or repeatedly. Give either `at` or `cron`."""
        if bool(at) == bool(cron):
            raise ToolError("give either `at` or `cron`")
        when = schedules.time_of(at) if at else schedules.cron_of(cron, zone)
        return _shown(await schedules.set(context, message, when))

    @tool(effect="read")
    async def list_schedules(context: ToolContext) -> list[dict[str, Any]]:
        """List the user's schedules with their next times."""
        return [_shown(each) for each in await schedules.found(context)]

    @tool(effect="idempotent")
    async def remove_schedule(schedule: str, context: ToolContext) -> str:
        """Remove a schedule of the user by its id."""
        return "removed" if await schedules.remove(context, schedule) else f"there is no schedule {schedule!r:.80}"

    return set_schedule, list_schedules, remove_schedule


def _shown(schedule: Schedule) -> dict[str, Any]:
    due = schedule.due_at
    shown = {"schedule": schedule.id, "message": schedule.input.get("message", "")}
    if schedule.cron:
        shown |= {"cron": schedule.cron, "zone": schedule.zone}
    return {**shown, "next": "paused" if due is None else datetime.fromtimestamp(due, UTC).isoformat()}
