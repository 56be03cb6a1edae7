"""The runtime: keeps runs alive apart from those who watch them, and takes up what was left, waits, or was killed."""

from .event_log import Feed
from .runtime import Answered, LiveRun, Runtime

__all__ = ["Answered", "Feed", "LiveRun", "Runtime"]
