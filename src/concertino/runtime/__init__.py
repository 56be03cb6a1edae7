"""The runtime: runs that survive their consumers and their process, and the conversations that they are turns of."""

from .answers import AnswerOutcome
from .conversation import Conversation, ConversationTurn, WhenBusy
from .event_log import EventLog
from .live_run import LiveRun
from .run_resources import ResourcesFunction
from .runtime import Runtime
from .schedules import Schedules
from .times import Cron

__all__ = [
    "AnswerOutcome",
    "Conversation",
    "ConversationTurn",
    "Cron",
    "EventLog",
    "LiveRun",
    "ResourcesFunction",
    "Runtime",
    "Schedules",
    "WhenBusy",
]
