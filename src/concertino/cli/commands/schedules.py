"""`concertino schedule`: add, list, pause, resume and delete schedules."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import datetime

from rich.text import Text

from ...errors import ConfigurationError
from ...orchestrator.chat import Chat
from ...orchestrator.resources import Resources
from ...runtime import Cron, Runtime
from ...scope import OPERATOR, Scope
from ...storage.schedule_types import Schedule
from ..command_context import CommandContext, user_name
from ..render.console import table
from ..render.format import moment, one_line
from ..schedule_options import ScheduleOptions
from .runs_resume import runtime_of


async def add_schedule(given: ScheduleOptions, context: CommandContext) -> int:
    """Store a schedule. Raises `ConfigurationError`."""
    async with AsyncExitStack() as stack:
        runtime = await runtime_of(context)  # not entered: it starts nothing
        stack.push_async_callback(runtime.close)
        if not runtime.knows(given.agent):
            names = ", ".join(sorted(agent.name for agent in runtime.agents))
            raise ConfigurationError(f"unknown agent {given.agent!r}: choose from {names}")
        scope = Scope(given.tenant, user_name() if given.user is None else given.user)
        chat = Chat(given.message, model=context.options.model)
        schedule = await runtime.schedules.create(
            scope, given.agent, chat, _time(given), conversation_id=given.conversation
        )
    if context.console.as_json:
        context.console.json(_as_object(schedule))
    else:
        assert schedule.due_at is not None
        context.console.print(Text(f"{schedule.id} is next due {moment(schedule.due_at)}"))
    return 0


def _time(given: ScheduleOptions) -> datetime | Cron:
    if (given.at is None) == (given.cron is None):
        raise ConfigurationError("give either --at or --cron")
    if given.cron is not None:
        return Cron(given.cron, zone=given.zone, missed=given.missed)
    try:
        return datetime.fromisoformat(given.at or "")
    except ValueError:
        raise ConfigurationError(
            f"invalid --at {given.at!r:.80}: use ISO 8601, such as 2027-01-31T09:00+01:00"
        ) from None


async def list_schedules(limit: int, context: CommandContext) -> int:
    """Print the schedules, the oldest first."""
    found = await context.store.schedules(OPERATOR, limit=limit)
    if context.console.as_json:
        for schedule in found:
            context.console.json(_as_object(schedule))
    elif found:
        rows = [_row(schedule) for schedule in found]
        heads = ("SCHEDULE", "NEXT", "TIMES", "AGENT", "TENANT", "USER", "MESSAGE")
        context.console.print(table(heads, rows, flexible=("AGENT", "TENANT", "USER", "MESSAGE")))
    else:
        context.console.notice(f"no schedules in {context.database}")
    return 0


async def change_schedule(change: str, schedule_id: str, context: CommandContext) -> int:
    """Pause, resume or delete a schedule. Raises `ConfigurationError` for an unknown id."""
    schedules = Runtime((), Resources(store=context.store)).schedules
    changes = {"paused": schedules.pause, "resumed": schedules.resume, "deleted": schedules.delete}
    if not await changes[change](OPERATOR, schedule_id):
        raise ConfigurationError(f"unknown schedule {schedule_id!r}: concertino schedule list prints them")
    if context.console.as_json:
        context.console.json({"schedule_id": schedule_id, change: True})
    else:
        context.console.print(Text(f"{schedule_id} is {change}"))
    return 0


def _as_object(schedule: Schedule) -> dict[str, object]:
    return {
        "schedule_id": schedule.id,
        "tenant": schedule.tenant,
        "user": schedule.user,
        "agent": schedule.agent,
        "message": schedule.input.get("message", ""),
        "conversation_id": schedule.conversation_id,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "at": schedule.at,
        "missed": schedule.missed,
        "due_at": schedule.due_at,
    }


def _row(schedule: Schedule) -> list[str]:
    return [
        schedule.id,
        "paused" if schedule.due_at is None else moment(schedule.due_at),
        one_line(f"{schedule.cron} {schedule.zone}") if schedule.cron else "once",
        one_line(schedule.agent),
        one_line(schedule.tenant),
        one_line(schedule.user),
        one_line(str(schedule.input.get("message", ""))),
    ]
