"""The token engine: counts tokens without a network, and decides which messages of a conversation a model is sent."""

from .cache_monitor import Miss
from .counting.base import EstimatingCounter, TokenCounter
from .edits import Edit, Reduce, Strip, Summarize
from .planner import Plan, SummaryJob
from .retention import Retention, SummaryStyle
from .token_engine import TokenEngine

__all__ = [
    "Edit",
    "EstimatingCounter",
    "Miss",
    "Plan",
    "Reduce",
    "Retention",
    "Strip",
    "Summarize",
    "SummaryJob",
    "SummaryStyle",
    "TokenCounter",
    "TokenEngine",
]
