"""Values of schedules: messages that are sent to an agent at given times."""

from __future__ import annotations

from typing import Any, Literal

from ..records import record

Missed = Literal["skip", "once", "all"]
"""The policy for times that passed while no process was running. `skip`: none starts. `once`: the last one starts.
`all`: all start, or the last ones if there are too many."""


@record(kw_only=True)
class Schedule:
    """A message that is sent to an agent at given times, on behalf of a user."""

    id: str
    tenant: str
    user: str
    agent: str
    input: dict[str, Any]
    """The chat as JSON."""
    conversation_id: str = ""
    """The conversation to which the messages are sent; if empty, each message begins a new one."""
    cron: str = ""
    """The times as a cron expression of five fields; empty for a single time."""
    at: float | None = None
    """The time of a schedule without `cron`."""
    zone: str = "UTC"
    """The time zone of `cron`, by its IANA name."""
    missed: Missed = "once"
    most: int = 10
    """Most times that start at once after a pause, with `missed="all"`."""
    due_at: float | None = None
    """The next time, in seconds since 1970; None while the schedule is paused."""
