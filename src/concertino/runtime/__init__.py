"""The runtime: runs that survive their consumers and their process."""

from .event_log import EventLog
from .live_run import LiveRun
from .run_resources import ResourcesFunction
from .runtime import AnswerOutcome, Runtime

__all__ = ["AnswerOutcome", "EventLog", "LiveRun", "ResourcesFunction", "Runtime"]
