"""The engine: one loop, the hooks of an agent, and the parts of a run.

Read `engine` (the loop) and `turn` (one turn of it) first; `agent` has the decisions that an agent makes.
"""

from ..errors import LimitReason
from .agent import AgentConfig, Part
from .chat import Attachment, Chat
from .engine import ToolOrchestrator
from .event_stream import Observer
from .journal.data_policy import DataPolicy, KeepFor, ToolData, Treatment
from .journal.patterns import CARD_NUMBER, EMAIL, IBAN, Pattern
from .journal.replay import JournalStep, Replay, read_steps, replay, requests
from .model_call.retry import Retry
from .outcome import Allow, Ask, Continue, Deny, Fail, Finish, NextStep, Outcome, Special, Turn
from .resources import Limits, LimitsFunction, Resources, limits_within
from .run import Prompt, RunContext
from .run_state import RunState

__all__ = [
    "CARD_NUMBER",
    "EMAIL",
    "IBAN",
    "AgentConfig",
    "Allow",
    "Ask",
    "Attachment",
    "Chat",
    "Continue",
    "DataPolicy",
    "Deny",
    "Fail",
    "Finish",
    "JournalStep",
    "KeepFor",
    "LimitReason",
    "Limits",
    "LimitsFunction",
    "NextStep",
    "Observer",
    "Outcome",
    "Part",
    "Pattern",
    "Prompt",
    "Replay",
    "Resources",
    "Retry",
    "RunContext",
    "RunState",
    "Special",
    "ToolData",
    "ToolOrchestrator",
    "Treatment",
    "Turn",
    "limits_within",
    "read_steps",
    "replay",
    "requests",
]
