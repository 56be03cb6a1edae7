"""Values of schedules: messages that are sent to an agent at given times."""

from __future__ import annotations

from typing import Any, Literal

from ..records import record

Missed = Literal["skip", "once", "all"]
"""What becomes of times that passed while no process looked. `skip`: nothing. `once`: the last of them starts. `all`:
each of them starts, the last ones if they are too many."""


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
    """The conversation that the messages are sent to; empty: each begins a new one."""
    cron: str = ""
    """The times as a cron expression of five fields; empty: once."""
    at: float | None = None
    """The time of a schedule without `cron`."""
    zone: str = "UTC"
    """The time zone of `cron`, by its IANA name."""
    missed: Missed = "once"
    most: int = 10
    """Most times that start at once after a pause, with `missed="all"`."""
    due_at: float | None = None
    """When it is next due, in seconds since 1970; None while it is paused."""
