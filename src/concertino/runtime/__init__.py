"""The runtime: runs that survive their consumers and their process, and the conversations that they are turns of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .answers import AnswerOutcome
from .bus.base import Bell, LocalBell
from .conversation import Conversation, ConversationTurn, WhenBusy
from .event_log import EventLog
from .fleet import Fleet
from .live_run import LiveRun
from .run_resources import ResourcesFunction
from .runtime import Runtime
from .schedule_part import Scheduling
from .schedules import Schedules
from .times import Cron

if TYPE_CHECKING:
    from .bus.nats import NatsBell
    from .bus.postgres import PostgresBell

__all__ = [
    "AnswerOutcome",
    "Bell",
    "Conversation",
    "ConversationTurn",
    "Cron",
    "EventLog",
    "Fleet",
    "LiveRun",
    "LocalBell",
    "NatsBell",
    "PostgresBell",
    "ResourcesFunction",
    "Runtime",
    "Schedules",
    "Scheduling",
    "WhenBusy",
]


def __getattr__(name: str) -> Any:
    # Their clients are extras.
    if name == "NatsBell":
        from .bus.nats import NatsBell  # noqa: PLC0415

        return NatsBell
    if name == "PostgresBell":
        from .bus.postgres import PostgresBell  # noqa: PLC0415

        return PostgresBell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
